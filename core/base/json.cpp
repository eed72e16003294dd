#include "core/base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/text_place.h"
#include "core/base/utf8.h"

namespace quire {
namespace {

// Spelling that replaces numbers the parser would refuse; as short as the shortest of them.
constexpr std::string_view kOddNumber = "0e0";

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct NumberWord {
  std::string_view word;
  double value;
};
constexpr std::array<NumberWord, 3> kNumberWords = {
    {{"NaN", std::numeric_limits<double>::quiet_NaN()}, {"Infinity", kInfinity}, {"-Infinity", -kInfinity}}};

// Returns whether `c` may be part of a number or of a word such as Infinity.
bool is_token_char(char c) {
  return is_ascii_letter_or_digit(c) || c == '-' || c == '+' || c == '.';
}

// Returns whether `token` is a number that is too large for a double.
bool is_too_large(std::string_view token) {
  const size_t exponent = token.find_first_of("eE");
  const bool can_be_large = exponent != std::string_view::npos
                                ? token.substr(exponent + 1, 1) != "-"
                                : token.front() != '0' && !token.starts_with("-0");
  double value = 0.0;
  const auto read = std::from_chars(token.data(), token.data() + token.size(), value);
  return can_be_large && read.ec == std::errc::result_out_of_range && read.ptr == token.data() + token.size();
}

// Returns the length of the string literal that begins at `at`, or of the rest of the text.
size_t string_length(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size()) - at;
}

// The numbers of a text that JSON does not allow.
struct OddNumbers {
  std::string text;  // with them spelled kOddNumber, everything else at its place
  std::vector<double> values;
};

// Finds the numbers that Python's json module reads and JSON does not allow.
OddNumbers replace_odd_numbers(std::string_view text) {
  OddNumbers out{std::string(text), {}};
  const auto replace = [&](size_t at, size_t length, double value) {
    out.text.replace(at, length, length, ' ');
    out.text.replace(at, kOddNumber.size(), kOddNumber);
    out.values.push_back(value);
  };
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at += string_length(text, at);
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_token_char(text[end])) ++end;
    const std::string_view token = text.substr(at, end - at);
    const auto* const word = std::find_if(kNumberWords.begin(), kNumberWords.end(),
                                          [&](const NumberWord& row) { return row.word == token; });
    if (word != kNumberWords.end()) {
      replace(at, token.size(), word->value);
    } else if (token == kOddNumber) {
      out.values.push_back(0.0);
    } else if (!token.empty() && is_too_large(token)) {
      replace(at, token.size(), token.front() == '-' ? -kInfinity : kInfinity);
    }
    at = std::max(end, at + 1);
  }
  return out;
}

}  // namespace

// Builder of a value from parser events. It rejects too deep nesting and duplicate keys, which nlohmann's own
// DOM parser does not.
class JsonBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // `odd_numbers` holds the values of the numbers that the text spells kOddNumber, in their order.
  JsonBuilder(std::string_view text, std::string_view source, size_t max_depth,
              std::vector<double> odd_numbers)
      : text_(text), source_(source), max_depth_(max_depth), odd_numbers_(std::move(odd_numbers)) {}

  JsonValue take() { return std::move(root_); }

  bool null() override { return place(JsonValue()); }
  bool boolean(bool value) override { return place(JsonValue(value)); }
  bool number_integer(number_integer_t value) override { return place(JsonValue(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > uint64_t{INT64_MAX}) return place(JsonValue(static_cast<double>(value)));
    return place(JsonValue(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text == kOddNumber && next_odd_ < odd_numbers_.size())
      return place(JsonValue(odd_numbers_[next_odd_++]));
    if (!std::isfinite(value))
      throw Error(ErrorCode::format, "{}: the number {} is out of range", source_, printable(text, 32));
    return place(JsonValue(value));
  }
  bool string(string_t& value) override { return place(JsonValue(std::move(value))); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(JsonValue(JsonValue::Object())); }
  bool start_array(std::size_t) override { return open(JsonValue(JsonValue::Array())); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second) {
      throw Error(ErrorCode::format, "{}: the key \"{}\" appears twice in one object", source_,
                  printable(name));
    }
    pending_key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw Error(ErrorCode::format, "{}: not valid JSON in {}", source_,
                place_in(text_, std::max(position, size_t{1}) - 1));
  }

 private:
  // A container that is not closed yet. It is the last element of its parent, so the parent does not move it
  // while it is open.
  struct Open {
    JsonValue* value;
    std::unordered_set<std::string> keys;  // of an object
  };

  bool open(JsonValue value) {
    if (open_.size() >= max_depth_) {
      throw Error(ErrorCode::format, "{}: JSON nested deeper than {} levels", source_, max_depth_);
    }
    open_.push_back({insert(std::move(value)), {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  bool place(JsonValue value) {
    insert(std::move(value));
    return true;
  }
  JsonValue* insert(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    auto& parent = open_.back().value->value_;
    if (auto* const array = std::get_if<JsonValue::Array>(&parent)) {
      return &array->emplace_back(std::move(value));
    }
    return &std::get<JsonValue::Object>(parent)
                .emplace_back(JsonMember{std::move(pending_key_), std::move(value)})
                .value;
  }

  std::string_view text_;
  std::string_view source_;
  size_t max_depth_;
  std::vector<double> odd_numbers_;
  size_t next_odd_ = 0;
  JsonValue root_;
  std::vector<Open> open_;
  std::string pending_key_;
};

namespace {

JsonValue::Object copies_of(const JsonValue::Object& members, size_t capacity) {
  JsonValue::Object copies;
  copies.reserve(capacity);
  for (const JsonMember& member : members) {
    JsonValue value = member.value.copy();
    copies.push_back({member.key, std::move(value)});
  }
  return copies;
}

}  // namespace

// Returns the last value in this one; null if there is none.
JsonValue* JsonValue::last() noexcept {
  if (auto* const items = std::get_if<Array>(&value_)) return items->empty() ? nullptr : &items->back();
  if (auto* const members = std::get_if<Object>(&value_))
    return members->empty() ? nullptr : &members->back().value;
  return nullptr;
}

void JsonValue::drop_last() noexcept {
  if (auto* const items = std::get_if<Array>(&value_)) return items->pop_back();
  std::get<Object>(value_).pop_back();
}

// Walks down along the last values and frees them on the way back. There may be no memory for a list of the
// values above the current one, so each is kept in the place that the one below it had in it.
void JsonValue::clear() noexcept {
  static_assert(std::is_same_v<std::variant_alternative_t<kFirstContainer, decltype(value_)>, Array>);
  if (last() == nullptr) return;
  JsonValue at = std::move(*this);
  JsonValue above;
  for (;;) {
    JsonValue* const below = at.last();
    if (below == nullptr) {
      at.value_ = std::monostate();
      JsonValue* const place = above.last();
      if (place == nullptr) return;
      at = std::move(above);
      above = std::move(*at.last());
      at.drop_last();
    } else if (below->last() == nullptr) {
      at.drop_last();
    } else {
      JsonValue next = std::move(*below);
      *below = std::move(above);
      above = std::move(at);
      at = std::move(next);
    }
  }
}

// Builds each alternative before a variant takes it over, which cannot fail.
JsonValue JsonValue::copy() const {
  if (const bool* const flag = as_bool()) return JsonValue(*flag);
  if (const int64_t* const whole = as_int()) return JsonValue(*whole);
  if (const double* const number = as_double()) return JsonValue(*number);
  if (const std::string* const text = as_string()) return JsonValue(std::string(*text));
  if (const Array* const items = as_array()) {
    Array copies;
    copies.reserve(items->size());
    for (const JsonValue& item : *items) copies.push_back(item.copy());
    return JsonValue(std::move(copies));
  }
  if (const Object* const members = as_object()) return JsonValue(copies_of(*members, members->size()));
  return {};
}

JsonValue JsonValue::copy_with(std::string_view key, JsonValue value) const {
  const Object& members = *as_object();
  Object copies = copies_of(members, members.size() + 1);
  copies.push_back({std::string(key), std::move(value)});
  return JsonValue(std::move(copies));
}

const JsonValue* JsonValue::find(std::string_view key) const {
  const Object* const object = as_object();
  if (object == nullptr) return nullptr;
  const auto it = std::find_if(object->begin(), object->end(),
                               [key](const JsonMember& member) { return member.key == key; });
  return it == object->end() ? nullptr : &it->value;
}

JsonValue parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw Error(ErrorCode::format, "{}: {} bytes of JSON, more than the limit of {}", source, text.size(),
                limits.max_bytes);
  }
  if (const size_t offset = find_invalid_utf8(text); offset != text.size()) {
    throw Error(ErrorCode::format, "{}: not valid UTF-8 at byte {}", source, offset);
  }
  // The parser would take a NUL for the end of the text and ignore the rest.
  if (const size_t offset = text.find('\0'); offset != std::string_view::npos) {
    throw Error(ErrorCode::format, "{}: not valid JSON in {}", source, place_in(text, offset));
  }
  OddNumbers odd;
  if (limits.python_numbers) {
    odd = replace_odd_numbers(text);
    text = odd.text;
  }
  JsonBuilder builder(text, source, limits.max_depth, std::move(odd.values));
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    throw Error(ErrorCode::format, "{}: not valid JSON", source);
  }
  return builder.take();
}

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool JsonView::has(std::string_view key) const {
  return find(key).has_value();
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!is_object()) fail("an object");
  const JsonValue* const member = value_->find(key);
  if (member == nullptr || member->is_null()) return std::nullopt;
  return JsonView(*member, where_ + "." + std::string(key));
}

JsonView JsonView::at(std::string_view key) const {
  if (auto member = find(key)) return *member;
  throw Error(ErrorCode::format, "{}.{} is missing", where_, key);
}

const JsonValue::Array& JsonView::elements() const {
  if (!is_array()) fail("a list");
  return *value_->as_array();
}

const JsonValue::Object& JsonView::members() const {
  if (!is_object()) fail("an object");
  return *value_->as_object();
}

std::vector<JsonView> JsonView::items() const {
  const JsonValue::Array& array = elements();
  std::vector<JsonView> out;
  out.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) out.emplace_back(array[i], fmt::format("{}[{}]", where_, i));
  return out;
}

int64_t JsonView::as_int(int64_t min, int64_t max) const {
  std::optional<int64_t> whole;
  if (const int64_t* const number = value_->as_int()) whole = *number;
  // Accepts a number written as 8.0 as 8, because some exporters write that.
  if (const double* const number = value_->as_double()) {
    if (*number == std::floor(*number) && std::abs(*number) < 9e15) whole = static_cast<int64_t>(*number);
  }
  if (!whole || *whole < min || *whole > max) fail(fmt::format("a whole number from {} to {}", min, max));
  return *whole;
}

double JsonView::as_number(double min, double max) const {
  double number = std::nan("");
  if (const int64_t* const whole = value_->as_int()) number = static_cast<double>(*whole);
  if (const double* const fraction = value_->as_double()) number = *fraction;
  if (!(number >= min && number <= max)) fail(fmt::format("a number from {} to {}", min, max));
  return number;
}

bool JsonView::as_bool() const {
  if (!is_bool()) fail("true or false");
  return *value_->as_bool();
}

const std::string& JsonView::as_string() const {
  const std::string* const text = value_->as_string();
  if (text == nullptr) fail("a string");
  return *text;
}

int64_t JsonView::int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const {
  const auto member = find(key);
  return member ? member->as_int(min, max) : fallback;
}

double JsonView::number_or(std::string_view key, double fallback, double min, double max) const {
  const auto member = find(key);
  return member ? member->as_number(min, max) : fallback;
}

bool JsonView::bool_or(std::string_view key, bool fallback) const {
  const auto member = find(key);
  return member ? member->as_bool() : fallback;
}

std::string JsonView::string_or(std::string_view key, std::string_view fallback) const {
  const auto member = find(key);
  return member ? member->as_string() : std::string(fallback);
}

void JsonView::fail(std::string_view expected) const {
  throw Error(ErrorCode::format, "{} must be {}", where_, expected);
}

}  // namespace quire
