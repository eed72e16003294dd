#include "core/base/utf8.h"

#include "core/base/error.h"

namespace quire {
namespace {

struct LeadByte {
  size_t length;
  uint32_t bits;
  uint32_t smallest;  // the smallest code point that needs this length
};

LeadByte classify(unsigned char byte) noexcept {
  if (byte < 0x80) return {1, byte, 0};
  if (byte >= 0xc2 && byte <= 0xdf) return {2, byte & 0x1fU, 0x80};
  if (byte >= 0xe0 && byte <= 0xef) return {3, byte & 0x0fU, 0x800};
  if (byte >= 0xf0 && byte <= 0xf4) return {4, byte & 0x07U, 0x10000};
  return {0, 0, 0};
}

bool is_scalar_value(uint32_t code_point, uint32_t smallest) noexcept {
  return code_point >= smallest && code_point <= 0x10ffff && !(code_point >= 0xd800 && code_point <= 0xdfff);
}

// Returns whether the second byte can still lead to a scalar value; distinguishes a truncated character from
// invalid bytes.
bool second_byte_possible(unsigned char lead, unsigned char second) noexcept {
  if (lead == 0xe0) return second >= 0xa0;
  if (lead == 0xed) return second <= 0x9f;
  if (lead == 0xf0) return second >= 0x90;
  if (lead == 0xf4) return second <= 0x8f;
  return true;
}

}  // namespace

Utf8Char decode_utf8(std::string_view text, size_t pos) noexcept {
  const auto byte_at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const LeadByte lead = classify(byte_at(pos));
  if (lead.length == 0) return {0, 1, false, false};
  uint32_t code_point = lead.bits;
  for (size_t i = 1; i < lead.length; ++i) {
    if (pos + i >= text.size()) return {0, 1, false, true};
    const unsigned char byte = byte_at(pos + i);
    if ((byte & 0xc0) != 0x80) return {0, 1, false, false};
    if (i == 1 && !second_byte_possible(byte_at(pos), byte)) return {0, 1, false, false};
    code_point = (code_point << 6) | (byte & 0x3fU);
  }
  if (!is_scalar_value(code_point, lead.smallest)) return {0, 1, false, false};
  return {code_point, lead.length, true, false};
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto push = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xc0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    push(0xe0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3f));
    push(0x80 | (code_point & 0x3f));
  } else {
    push(0xf0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3f));
    push(0x80 | ((code_point >> 6) & 0x3f));
    push(0x80 | (code_point & 0x3f));
  }
}

size_t find_invalid_utf8(std::string_view text) noexcept {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char next = decode_utf8(text, pos);
    if (!next.valid) return pos;
    pos += next.length;
  }
  return text.size();
}

void require_utf8(std::string_view text, std::string_view what) {
  const size_t offset = find_invalid_utf8(text);
  if (offset != text.size()) {
    throw Error(ErrorCode::encoding, "{} is not valid UTF-8 at byte {}", what, offset);
  }
}

}  // namespace quire
