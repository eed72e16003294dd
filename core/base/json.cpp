#include "core/base/json.h"

#include <cmath>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace quire {
namespace {

// Builds the value while it refuses depth and duplicate keys, which nlohmann's own DOM parser does not.
class StrictHandler final : public nlohmann::json_sax<Json> {
 public:
  StrictHandler(std::string_view source, size_t max_depth) : source_(source), max_depth_(max_depth) {}

  Json take() { return std::move(root_); }

  bool null() override { return place(Json(nullptr)); }
  bool boolean(bool value) override { return place(Json(value)); }
  bool number_integer(number_integer_t value) override { return place(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return place(Json(value)); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (!std::isfinite(value))
      throw Error(ErrorCode::format, "{}: the number {} is out of range", source_, printable(text, 32));
    return place(Json(value));
  }
  bool string(string_t& value) override { return place(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override {
    keys_.pop_back();
    return close();
  }
  bool end_array() override {
    keys_.pop_back();
    return close();
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      throw Error(ErrorCode::format, "{}: the key \"{}\" appears twice in one object", source_,
                  printable(name));
    }
    pending_key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    throw Error(ErrorCode::format, "{}: not valid JSON at byte {}", source_, position);
  }

 private:
  bool open(Json value) {
    if (stack_.size() >= max_depth_) {
      throw Error(ErrorCode::format, "{}: JSON nested deeper than {} levels", source_, max_depth_);
    }
    stack_.push_back(insert(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }
  bool place(Json value) {
    insert(std::move(value));
    return true;
  }
  Json* insert(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // ordered_json's object is a vector that looks a key up linearly on every insert; the key is known to
    // be new, so it is appended.
    auto& object = parent.get_ref<Json::object_t&>();
    static_cast<std::vector<std::pair<const std::string, Json>>&>(object).emplace_back(
        std::move(pending_key_), std::move(value));
    return &object.back().second;
  }

  std::string_view source_;
  size_t max_depth_;
  Json root_;
  std::vector<Json*> stack_;  // open containers; the parent of a value is the last
  std::vector<std::unordered_set<std::string>> keys_;
  std::string pending_key_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw Error(ErrorCode::format, "{}: {} bytes of JSON, more than the limit of {}", source, text.size(),
                limits.max_bytes);
  }
  if (const size_t offset = find_invalid_utf8(text); offset != text.size()) {
    throw Error(ErrorCode::format, "{}: not valid UTF-8 at byte {}", source, offset);
  }
  // The parser would take a NUL for the end of the text and ignore what follows.
  if (const size_t offset = text.find('\0'); offset != std::string_view::npos) {
    throw Error(ErrorCode::format, "{}: not valid JSON at byte {}", source, offset);
  }
  StrictHandler handler(source, limits.max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &handler)) {
    throw Error(ErrorCode::format, "{}: not valid JSON", source);
  }
  return handler.take();
}

bool JsonView::has(std::string_view key) const {
  return find(key).has_value();
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto it = value_->find(key);
  if (it == value_->end() || it->is_null()) return std::nullopt;
  return JsonView(*it, where_ + "." + std::string(key));
}

JsonView JsonView::at(std::string_view key) const {
  if (auto member = find(key)) return *member;
  throw Error(ErrorCode::format, "{}.{} is missing", where_, key);
}

std::vector<JsonView> JsonView::items() const {
  if (!value_->is_array()) fail("a list");
  std::vector<JsonView> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    out.emplace_back((*value_)[i], fmt::format("{}[{}]", where_, i));
  }
  return out;
}

int64_t JsonView::as_int(int64_t min, int64_t max) const {
  // A number that was written as 8.0 is accepted as 8: some exporters do that.
  if (value_->is_number_float()) {
    const double number = value_->get<double>();
    if (number == std::floor(number) && std::abs(number) < 9e15) {
      const auto whole = static_cast<int64_t>(number);
      if (whole >= min && whole <= max) return whole;
    }
    fail(fmt::format("a whole number from {} to {}", min, max));
  }
  if (!value_->is_number_integer()) fail(fmt::format("a whole number from {} to {}", min, max));
  const bool too_big =
      value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t number = too_big ? INT64_MAX : value_->get<int64_t>();
  if (too_big || number < min || number > max) fail(fmt::format("a whole number from {} to {}", min, max));
  return number;
}

double JsonView::as_number(double min, double max) const {
  if (!value_->is_number()) fail(fmt::format("a number from {} to {}", min, max));
  const double number = value_->get<double>();
  if (!(number >= min && number <= max)) fail(fmt::format("a number from {} to {}", min, max));
  return number;
}

bool JsonView::as_bool() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

std::string JsonView::as_string() const {
  if (!value_->is_string()) fail("a string");
  return value_->get<std::string>();
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
