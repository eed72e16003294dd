#include "core/chat/unicode.h"

#include <algorithm>
#include <iterator>

#include <utf8proc.h>

#include "core/base/utf8.h"
#include "core/chat/special_casing.h"

namespace quire::chat {
namespace {

utf8proc_category_t category_of(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

const SpecialCase* special_case(uint32_t c) {
  const auto* found =
      std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), c,
                       [](const SpecialCase& entry, uint32_t value) { return entry.code_point < value; });
  return found != std::end(kSpecialCases) && found->code_point == c ? found : nullptr;
}

uint32_t simple_upper(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
uint32_t simple_lower(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
uint32_t simple_title(uint32_t c) {
  return static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

std::string encoded(uint32_t c) {
  std::string bytes;
  append_utf8(bytes, c);
  return bytes;
}

std::string lower_of(uint32_t c) {
  return c == 0x130 ? encoded('i') + encoded(0x307) : encoded(simple_lower(c));
}

}  // namespace

bool is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_line_end(uint32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(uint32_t c) {
  if (c < 0x7f) return c >= 0x20;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alphabetic(uint32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(uint32_t c) {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool is_numeric(uint32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_word_char(uint32_t c) {
  return c == '_' || is_alphabetic(c) || is_numeric(c);
}

bool is_upper(uint32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(uint32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba;
}
bool is_title(uint32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_LT;
}
bool is_cased(uint32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

std::string change_case(uint32_t c, CaseChange change) {
  const SpecialCase* special = special_case(c);
  switch (change) {
    case CaseChange::upper:
      return special != nullptr ? std::string(special->upper) : encoded(simple_upper(c));
    case CaseChange::title:
      return special != nullptr ? std::string(special->title) : encoded(simple_title(c));
    case CaseChange::lower:
      return lower_of(c);
    case CaseChange::fold:
      return c == 0xdf ? "ss" : lower_of(c);
    case CaseChange::swap:
      break;
  }
  return is_lower(c) ? change_case(c, CaseChange::upper) : lower_of(c);
}

size_t leading_space(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char next = decode_utf8(text, pos);
    if (!is_space(next.code_point)) break;
    pos += next.length;
  }
  return pos;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t begin = char_start_before(text, end);
    if (!is_space(decode_utf8(text, begin).code_point)) break;
    end = begin;
  }
  return text.size() - end;
}

size_t char_start_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return begin;
}

}  // namespace quire::chat
