#include "core/response/json_text.h"

#include <fmt/format.h>

#include "core/base/ascii.h"

namespace quire {
namespace {

bool is_plain(char byte) {
  return is_ascii_letter_or_digit(byte) || static_cast<unsigned char>(byte) >= 0x80 || byte == ' ' ||
         byte == '_';
}

}  // namespace

// The recursion is limited by the nesting limit of the JSON parser.
std::string json_text(const JsonValue& value) {
  if (value.is_null()) return "null";
  if (const bool* flag = value.as_bool()) return *flag ? "true" : "false";
  if (const int64_t* number = value.as_int()) return fmt::format("{}", *number);
  if (const double* number = value.as_double()) return fmt::format("{}", *number);
  if (const std::string* text = value.as_string()) return json_quoted(*text);
  std::string json;
  if (const JsonValue::Array* list = value.as_array()) {
    for (const JsonValue& item : *list) json += (json.empty() ? "" : ", ") + json_text(item);
    return "[" + json + "]";
  }
  for (const JsonMember& member : *value.as_object()) {
    json += (json.empty() ? "" : ", ") + json_quoted(member.key) + ": " + json_text(member.value);
  }
  return "{" + json + "}";
}

std::string lark_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') quoted += '\\';
    if (byte == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    } else {
      quoted += byte;
    }
  }
  return quoted + "\"";
}

std::string lark_pattern(std::string_view pattern) {
  std::string escaped;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char byte = pattern[i];
    if (byte == '[') in_class = true;
    if (byte == ']') in_class = false;
    if (byte == '/' && !in_class) escaped += '\\';
    escaped += byte;
    if (byte == '\\' && i + 1 < pattern.size()) escaped += pattern[++i];
  }
  return escaped;
}

std::string pattern_of_text(std::string_view text) {
  std::string pattern;
  for (const char byte : text) {
    if (byte == '\n') {
      pattern += "\\n";
    } else {
      if (!is_plain(byte)) pattern += '\\';
      pattern += byte;
    }
  }
  return pattern;
}

void avoid(std::string& pattern, std::string_view text) {
  if (!text.empty()) pattern += (pattern.empty() ? "" : "|") + pattern_of_text(text);
}

std::string text_without(const std::string& pattern) {
  return pattern.empty() ? "/.*/s" : fmt::format("/((?!{}).)*/s", pattern);
}

}  // namespace quire
