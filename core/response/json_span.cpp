#include "core/response/json_span.h"

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/utf8.h"
#include "core/base/white_space.h"

namespace quire {
namespace {

bool is_plain(char byte) {
  return is_ascii_letter_or_digit(byte) || byte == '-' || byte == '+' || byte == '.';
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

bool JsonSpan::take(char byte) {
  if (in_string_) {
    in_string_ = escaped_ || byte != '"';
    escaped_ = !escaped_ && byte == '\\';
    return true;
  }
  if (depth_ == 0 && begun_ && !is_plain(byte)) return false;
  if (byte == '{' || byte == '[') {
    ++depth_;
  } else if (byte == '}' || byte == ']') {
    if (depth_ == 0) return false;
    --depth_;
  } else if (byte == '"') {
    in_string_ = true;
  } else if (!is_plain(byte) && (depth_ == 0 || !(is_space(byte) || byte == ',' || byte == ':'))) {
    return false;
  }
  begun_ = true;
  return true;
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

void append_utf8_json(std::string& out, std::string_view bytes, std::string& cut) {
  const std::string joined = cut.empty() ? std::string() : cut + std::string(bytes);
  const std::string_view text = cut.empty() ? bytes : joined;
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char character = decode_utf8(text, pos);
    if (character.incomplete) break;
    out += character.valid ? text.substr(pos, character.length) : std::string_view("\xEF\xBF\xBD");
    pos += character.length;
  }
  cut = std::string(text.substr(pos));
}

}  // namespace quire
