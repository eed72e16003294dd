#include "core/response/json_span.h"

#include <fmt/format.h>

namespace quire {
namespace {

bool is_plain(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '-' || byte == '+' || byte == '.';
}

bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

void append_byte(std::string& out, char byte) {
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  if (static_cast<unsigned char>(byte) < 0x20) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned char>(byte));
  } else {
    out += byte;
  }
}

}  // namespace

JsonSpan::Step JsonSpan::take_in_string(char byte, std::string& out) {
  append_byte(out, byte);
  if (escaped_) {
    escaped_ = false;
  } else if (byte == '\\') {
    escaped_ = true;
  } else if (byte == '"') {
    in_string_ = false;
    if (depth_ == 0) return Step::last;
  }
  return Step::taken;
}

JsonSpan::Step JsonSpan::take(char byte, std::string& out) {
  if (in_string_) return take_in_string(byte, out);
  const bool opens = byte == '{' || byte == '[';
  if (depth_ == 0 && begun_ && !is_plain(byte)) return Step::refused;
  if (opens) {
    ++depth_;
  } else if (byte == '}' || byte == ']') {
    if (depth_ == 0) return Step::refused;
    --depth_;
  } else if (byte == '"') {
    in_string_ = true;
  } else if (!is_plain(byte) && (depth_ == 0 || !(is_space(byte) || byte == ',' || byte == ':'))) {
    return Step::refused;
  }
  begun_ = true;
  out += byte;
  return !opens && (byte == '}' || byte == ']') && depth_ == 0 ? Step::last : Step::taken;
}

void append_json_text(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) {
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += byte;
    } else {
      append_byte(out, byte);
    }
  }
}

}  // namespace quire
