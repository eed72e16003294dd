#include "core/base/message_text.h"

#include <fmt/core.h>

#include "core/base/utf8.h"

namespace quire {

bool is_unprintable(char32_t c) noexcept {
  const bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
  const bool line_end = c == 0x2028 || c == 0x2029;
  const bool direction = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                         (c >= 0x2066 && c <= 0x2069);
  return control || line_end || direction;
}

std::string escape_unprintable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char next = decode_utf8(text, pos);
    if (!next.valid || next.code_point < 0x80) {
      const auto byte = static_cast<unsigned char>(text[pos++]);
      if (!next.valid || is_unprintable(byte)) {
        out += fmt::format("\\x{:02x}", byte);
      } else {
        out.push_back(static_cast<char>(byte));
      }
      continue;
    }
    if (is_unprintable(next.code_point)) {
      out += fmt::format("\\u{{{:x}}}", next.code_point);
    } else {
      out.append(text.substr(pos, next.length));
    }
    pos += next.length;
  }
  return out;
}

void set_text(std::string& target, std::string_view text) noexcept {
  try {
    target = text;
  } catch (...) {
    target.clear();
  }
}

std::shared_ptr<const std::string> share_text(std::string_view text) noexcept {
  try {
    return text.empty() ? nullptr : std::make_shared<const std::string>(text);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace quire
