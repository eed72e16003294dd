// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

struct Utf8Char {
  uint32_t code_point = 0;
  size_t length = 0;  // bytes consumed; 1 if invalid
  bool valid = false;
  bool incomplete = false;  // invalid only because the text ends inside the character
};

// Decodes the character that starts at text[pos]; pos < text.size().
Utf8Char decode_utf8(std::string_view text, size_t pos) noexcept;

// Appends one code point, which must be a Unicode scalar value.
void append_utf8(std::string& out, uint32_t code_point);

// Returns the offset of the first byte that is not UTF-8, or text.size().
size_t find_invalid_utf8(std::string_view text) noexcept;

// Throws ErrorCode::encoding naming `what` and the byte offset if the text is not UTF-8.
void require_utf8(std::string_view text, std::string_view what);

}  // namespace quire
