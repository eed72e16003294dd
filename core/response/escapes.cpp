#include "core/response/escapes.h"

#include <cstdint>

#include "core/base/hex.h"
#include "core/base/utf8.h"
#include "core/response/json_span.h"

namespace quire {
namespace {

constexpr size_t kUnicodeBytes = 6;  // of \uXXXX
constexpr std::string_view kReplacement = "\\ufffd";

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

bool is_high(int64_t number) {
  return number >= 0xD800 && number <= 0xDBFF;
}

bool is_low(int64_t number) {
  return number >= 0xDC00 && number <= 0xDFFF;
}

// Returns the text of an escape with this letter in Python; empty if there is no such escape.
std::string_view python_escape(char letter) {
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

size_t keep_backslash(std::string& json) {
  json += "\\\\";
  return 1;
}

// Reads \uXXXX, or two of them that are a surrogate pair.
size_t take_unicode(std::string_view text, MoreToCome more, std::string& json) {
  if (text.size() < kUnicodeBytes && more == MoreToCome::yes) return 0;
  const int64_t number = hex_number(text.substr(2), 4);
  if (number < 0) return keep_backslash(json);
  if (!is_high(number)) {
    json += is_low(number) ? kReplacement : text.substr(0, kUnicodeBytes);
    return kUnicodeBytes;
  }
  const std::string_view after = text.substr(kUnicodeBytes);
  const bool goes_on = std::string_view("\\u").substr(0, after.size()) == after.substr(0, 2);
  if (goes_on && after.size() < kUnicodeBytes && more == MoreToCome::yes) return 0;
  const bool is_pair = goes_on && after.size() >= kUnicodeBytes && is_low(hex_number(after.substr(2), 4));
  json += is_pair ? text.substr(0, 2 * kUnicodeBytes) : kReplacement;
  return is_pair ? 2 * kUnicodeBytes : kUnicodeBytes;
}

size_t take_json_escape(std::string_view text, std::string& json) {
  if (text[1] == '\'') {
    json += '\'';
    return 2;
  }
  if (std::string_view("\"\\/bfnrt").find(text[1]) == std::string_view::npos) return keep_backslash(json);
  json += text.substr(0, 2);
  return 2;
}

size_t take_python_escape(std::string_view text, MoreToCome more, std::string& json) {
  if (const size_t num_digits = hex_digits_of(text[1]); num_digits > 0) {
    if (text.size() < 2 + num_digits && more == MoreToCome::yes) return 0;
    const int64_t number = hex_number(text.substr(2), num_digits);
    if (number < 0 || number > 0x10FFFF || is_high(number) || is_low(number)) return keep_backslash(json);
    std::string character;
    append_utf8(character, static_cast<uint32_t>(number));
    append_json_text(json, character);
    return 2 + num_digits;
  }
  const std::string_view plain = python_escape(text[1]);
  if (plain.empty() && text[1] != '\n') return keep_backslash(json);
  append_json_text(json, plain);
  return 2;
}

}  // namespace

size_t take_escape(std::string_view text, EscapeRules rules, MoreToCome more, std::string& json) {
  if (text.size() == 1) return more == MoreToCome::yes ? 0 : keep_backslash(json);
  if (text[1] == 'u') return take_unicode(text, more, json);
  return rules == EscapeRules::json ? take_json_escape(text, json) : take_python_escape(text, more, json);
}

}  // namespace quire
