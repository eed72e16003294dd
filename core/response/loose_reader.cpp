#include "core/response/loose_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/hex.h"
#include "core/base/utf8.h"
#include "core/base/white_space.h"
#include "core/response/json_span.h"

namespace quire {
namespace {

constexpr size_t kMaxKeyBytes = 64;    // look-ahead after a quote
constexpr size_t kMaxSpaceBytes = 64;  // look-ahead over white space

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

bool is_word(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

size_t skip_digits(std::string_view text, size_t pos) {
  while (pos < text.size() && is_digit(text[pos])) ++pos;
  return pos;
}

// Returns whether the text is a JSON number.
bool is_number(std::string_view text) {
  size_t pos = !text.empty() && text[0] == '-' ? 1 : 0;
  const size_t whole = pos;
  pos = skip_digits(text, pos);
  if (pos == whole || (text[whole] == '0' && pos > whole + 1)) return false;
  if (pos < text.size() && text[pos] == '.') {
    const size_t fraction = ++pos;
    pos = skip_digits(text, pos);
    if (pos == fraction) return false;
  }
  if (pos < text.size() && (text[pos] == 'e' || text[pos] == 'E')) {
    ++pos;
    if (pos < text.size() && (text[pos] == '-' || text[pos] == '+')) ++pos;
    const size_t power = pos;
    pos = skip_digits(text, pos);
    if (pos == power) return false;
  }
  return pos == text.size();
}

std::string_view json_word(std::string_view word) {
  if (word == "True" || word == "true") return "true";
  if (word == "False" || word == "false") return "false";
  if (word == "None" || word == "null") return "null";
  return is_number(word) ? word : std::string_view();
}

// Returns the value of `num_digits` hexadecimal digits; -1 if there are not that many.
int64_t hex_number(std::string_view text, size_t num_digits) {
  if (text.size() < num_digits) return -1;
  int64_t number = 0;
  for (const char byte : text.substr(0, num_digits)) {
    const int digit = hex_digit(byte);
    if (digit < 0) return -1;
    number = number * 16 + digit;
  }
  return number;
}

size_t hex_digits_of(char letter) {
  return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
}

// Returns the text of an escape with this letter; empty if there is no such escape.
std::string_view plain_escape(char letter) {
  switch (letter) {
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case 'r':
      return "\r";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'a':
      return "\a";
    case 'v':
      return "\v";
    case '0':
      return {"\0", 1};
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    default:
      return {};
  }
}

}  // namespace

LooseReader::LooseReader(Begin begin, std::string_view quote) : quote_(quote) {
  Level level;
  if (begin == Begin::arguments) {
    level.frame = Frame::arguments;
    level.at_key = true;
    json_ = "{";
  }
  levels_.push_back(level);
}

size_t LooseReader::advance(std::string_view text, MoreToCome more) {
  if (over_ || text.empty()) return 0;
  if (!end_quote_.empty()) return advance_in_string(text, more);
  const char byte = text.front();
  const bool may_quote = byte == '"' || byte == '\'' || (!quote_.empty() && byte == quote_.front());
  if (may_quote) return open_string(text, more);
  structure(byte);
  return 1;
}

size_t LooseReader::open_string(std::string_view text, MoreToCome more) {
  std::string_view quote = text.substr(0, 1);
  if (!quote_.empty() && text.front() == quote_.front()) {
    if (more == MoreToCome::yes && text.size() < quote_.size() && quote_.substr(0, text.size()) == text)
      return 0;
    if (text.substr(0, quote_.size()) == quote_) quote = quote_;
  } else if (text.substr(1, 1) == quote) {
    if (text.size() == 2 && more == MoreToCome::yes) return 0;
    if (text.substr(2, 1) == quote) quote = text.substr(0, 3);
  } else if (text.size() == 1 && more == MoreToCome::yes) {
    return 0;
  }
  if (word_.size() == 1) word_.clear();  // drop the prefix letter of r'...' and similar strings
  end_word();
  begin_item();
  json_ += '"';
  end_quote_ = quote;
  return quote.size();
}

size_t LooseReader::advance_in_string(std::string_view text, MoreToCome more) {
  if (text.front() == '\\' && end_quote_ != quote_) return advance_in_escape(text, more);
  const std::string_view quote = end_quote_;
  if (more == MoreToCome::yes && text.size() < quote.size() && quote.substr(0, text.size()) == text) return 0;
  bool closes = text.substr(0, quote.size()) == quote;
  if (closes && quote.size() == 1) {
    bool wait = false;
    closes = closes_string(text.substr(1), more, wait);
    if (wait) return 0;
  }
  if (!closes) {
    append_json_text(json_, text.substr(0, 1));
    return 1;
  }
  const size_t size = quote.size();
  json_ += '"';
  end_quote_.clear();
  over_ = levels_.back().frame == Frame::value;
  return size;
}

bool LooseReader::closes_string(std::string_view after, MoreToCome more, bool& wait) const {
  const auto byte_at = [&](size_t pos) {
    if (pos < after.size()) return after[pos];
    wait = more == MoreToCome::yes;
    return '\0';  // the end of the text also ends a string
  };
  size_t pos = 0;
  while (pos < kMaxSpaceBytes && is_space(byte_at(pos))) ++pos;
  const char next = byte_at(pos);
  if (next == '\0') return true;
  const Level& level = levels_.back();
  switch (level.frame) {
    case Frame::value:
      return false;
    case Frame::list:
    case Frame::unknown:
      return std::string_view(",]}):").find(next) != std::string_view::npos;
    case Frame::object:
      return level.at_key ? next == ':' : next == ',' || next == '}';
    case Frame::arguments:
      break;
  }
  if (level.at_key) return next == ':' || next == '=' || next == ',' || next == ')';
  if (!quote_.empty()) return next == ',' || next == '}';
  if (next == ')') {
    const char second = byte_at(pos + 1);
    return second == '\0' || std::string_view("],;<` \n\r\t").find(second) != std::string_view::npos;
  }
  if (next != ',') return false;
  const size_t comma = pos;
  while (pos - comma < kMaxSpaceBytes && is_space(byte_at(++pos))) {
  }
  const size_t key = pos;
  while (is_word(byte_at(pos)) && pos - key < kMaxKeyBytes) ++pos;
  const size_t key_end = pos;
  while (pos - key_end < kMaxSpaceBytes && is_space(byte_at(pos))) ++pos;
  return byte_at(pos) == '=' || byte_at(pos) == '\0' || (byte_at(pos) == ')' && pos == key);
}

size_t LooseReader::advance_in_escape(std::string_view text, MoreToCome more) {
  if (text.size() == 1 && more == MoreToCome::yes) return 0;
  const char letter = text.size() > 1 ? text[1] : '\0';
  const size_t num_digits = text.size() > 1 ? hex_digits_of(letter) : 0;
  if (num_digits > 0) {
    if (text.size() < 2 + num_digits && more == MoreToCome::yes) return 0;
    const int64_t number = hex_number(text.substr(2), num_digits);
    if (number >= 0 && letter == 'u') {  // the same as in JSON, including halves of surrogate pairs
      json_ += text.substr(0, 2 + num_digits);
      return 2 + num_digits;
    }
    if (number >= 0 && number <= 0x10FFFF && (number < 0xD800 || number > 0xDFFF)) {
      std::string character;
      append_utf8(character, static_cast<uint32_t>(number));
      append_json_text(json_, character);
      return 2 + num_digits;
    }
  }
  const std::string_view plain = text.size() > 1 ? plain_escape(letter) : std::string_view();
  if (!plain.empty()) append_json_text(json_, plain);
  if (!plain.empty() || letter == '\n') return 2;
  append_json_text(json_, "\\");
  return 1;
}

void LooseReader::structure(char byte) {
  Level& level = levels_.back();
  const size_t num_items = level.num_items + (word_.empty() ? 0 : 1);
  const bool assigns =
      (byte == ':' || byte == '=') && (level.at_key || (level.frame == Frame::unknown && num_items <= 1));
  if (assigns) {
    assign();
  } else if (byte == '[' || byte == '{' || byte == '(') {
    end_word();
    begin_item();
    open(byte);
  } else if (byte == ']' || byte == '}' || byte == ')') {
    end_word();
    close();
  } else if (byte == ',') {
    end_word();
    complete_item();
  } else if (!is_space(byte)) {
    word_ += byte;
  } else if (!expects_key()) {
    end_word();
  }
}

void LooseReader::begin_item() {
  Level& level = levels_.back();
  if (level.frame == Frame::value) {
    sound_ = sound_ && level.num_items == 0;
    ++level.num_items;
    return;
  }
  const bool is_list = level.frame == Frame::list || level.frame == Frame::unknown;
  if (!is_list && (level.key_open || level.has_value)) complete_item();  // the separator is missing
  if ((is_list || level.at_key) && level.num_items > 0) json_ += ", ";
  if (is_list || level.at_key) ++level.num_items;
  if (level.at_key && level.frame == Frame::arguments && quote_.empty()) {  // a positional value
    json_ += fmt::format("\"{}\": ", level.num_items);
    level.at_key = false;
  }
  level.key_open = level.at_key;
  level.has_value = !level.at_key;
  level.item_begin = json_.size();
}

void LooseReader::open(char byte) {
  Level level;
  level.begin = json_.size();
  level.frame = byte != '{' ? Frame::list : quote_.empty() ? Frame::unknown : Frame::object;
  level.at_key = level.frame == Frame::object;
  json_ += byte == '{' ? '{' : '[';
  levels_.push_back(level);
}

void LooseReader::decide(Level& level, Frame frame) {
  level.frame = frame;
  level.at_key = frame == Frame::object;
  json_[level.begin] = frame == Frame::object ? '{' : '[';
}

void LooseReader::close() {
  Level& level = levels_.back();
  if (level.frame == Frame::value) {
    sound_ = false;
    over_ = true;
    return;
  }
  if (level.frame == Frame::unknown) decide(level, level.num_items == 0 ? Frame::object : Frame::list);
  complete_item();
  json_ += level.frame == Frame::list ? ']' : '}';
  over_ = level.frame == Frame::arguments;
  if (over_) return;
  levels_.pop_back();
  over_ = levels_.back().frame == Frame::value;
}

// Completes a member of an object: a key without a value gets null.
void LooseReader::complete_item() {
  Level& level = levels_.back();
  if (level.frame != Frame::arguments && level.frame != Frame::object) return;
  if (level.key_open) {
    quote_key(level);
    json_ += ": null";
  } else if (!level.at_key && !level.has_value) {
    json_ += "null";
  }
  level.key_open = level.has_value = false;
  level.at_key = true;
}

void LooseReader::assign() {
  Level& level = levels_.back();
  if (!word_.empty()) {
    if (level.key_open) complete_item();
    if (level.num_items > 0) json_ += ", ";
    ++level.num_items;
    json_ += '"';
    append_json_text(json_, word_);
    json_ += '"';
    word_.clear();
  } else if (level.frame == Frame::unknown ? level.num_items == 0 : !level.key_open) {
    if (level.num_items > 0) json_ += ", ";
    ++level.num_items;
    json_ += "\"\"";
  } else {
    quote_key(level);
  }
  if (level.frame == Frame::unknown) decide(level, Frame::object);
  json_ += ": ";
  level.at_key = level.key_open = level.has_value = false;
}

// Turns a key that is not a string into a string of its text.
void LooseReader::quote_key(const Level& level) {
  if (json_[level.item_begin] == '"') return;
  const std::string key = json_.substr(level.item_begin);
  json_.resize(level.item_begin);
  json_ += '"';
  append_json_text(json_, key);
  json_ += '"';
}

void LooseReader::end_word() {
  if (word_.empty()) return;
  begin_item();
  const std::string_view json = json_word(word_);
  if (json.empty()) {
    sound_ = false;
    json_ += '"';
    append_json_text(json_, word_);
    json_ += '"';
  } else {
    json_ += json;
  }
  word_.clear();
}

std::string LooseReader::take_json() {
  size_t certain = json_.size();
  for (const Level& level : levels_) {
    if (level.frame == Frame::unknown) certain = std::min(certain, level.begin);
    if (level.key_open) certain = std::min(certain, level.item_begin);
  }
  if (certain <= num_taken_) return "";
  std::string taken = json_.substr(num_taken_, certain - num_taken_);
  num_taken_ = certain;
  return taken;
}

void LooseReader::finish() {
  if (!expects_key()) end_word();
  over_ = over_ || levels_.back().frame == Frame::value;
}

}  // namespace quire
