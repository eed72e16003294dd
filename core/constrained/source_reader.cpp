#include "core/constrained/source_reader.h"

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/hex.h"
#include "core/base/text_place.h"
#include "core/base/utf8.h"
#include "core/constrained/char_set.h"

namespace quire {

void SourceReader::malformed(std::string_view what) const {
  malformed_at(pos_, what);
}

void SourceReader::malformed_at(size_t position, std::string_view what) const {
  throw Error(ErrorCode::format, "{}: {} in {}", name_, what, place_in(text_, position));
}

void SourceReader::unsupported(std::string_view what) const {
  unsupported_at(pos_, what);
}

void SourceReader::unsupported_at(size_t position, std::string_view what) const {
  throw Error(ErrorCode::unsupported, "{}: {} in {} is not supported", name_, printable(what),
              place_in(text_, position));
}

void SourceReader::exceeds(std::string_view limit, size_t value) const {
  throw Error(ErrorCode::capacity, "{}: more than {} = {} in {}", name_, limit, value, place_in(text_, pos_));
}

bool SourceReader::take(std::string_view expected) {
  if (text_.substr(pos_, expected.size()) != expected) return false;
  pos_ += expected.size();
  return true;
}

uint32_t SourceReader::take_char() {
  if (at_end()) malformed("a character is missing");
  const Utf8Char next = decode_utf8(text_, pos_);
  if (!next.valid) malformed("invalid UTF-8");
  pos_ += next.length;
  return next.code_point;
}

uint32_t SourceReader::read_hex(size_t num_digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < num_digits; ++i, ++pos_) {
    const int digit = hex_digit(peek());
    if (digit < 0) malformed("a hexadecimal digit is missing");
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  return value;
}

uint32_t SourceReader::read_braced_hex() {
  uint32_t value = 0;
  while (!take("}")) {
    value = value * 16 + read_hex(1);
    if (value > kMaxCodePoint) malformed("a code point above U+10FFFF");
  }
  return value;
}

std::optional<uint32_t> SourceReader::read_digits(uint32_t max_repeat) {
  std::optional<uint32_t> number;
  while (is_ascii_digit(peek())) {
    number = number.value_or(0) * 10 + static_cast<uint32_t>(text_[pos_++] - '0');
    if (*number > max_repeat) exceeds("max_repeat", max_repeat);
  }
  return number;
}

}  // namespace quire
