#include "core/tokenizer/unicode_text.h"

#include <utf8proc.h>

#include "core/base/utf8.h"
#include "core/tokenizer/unicode_additions.h"

namespace quire {
namespace {

bool is_word_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

// Returns whether it is an alphabetic symbol: a circled or squared Latin letter.
bool is_alphabetic_symbol(uint32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

bool is_added_word_character(uint32_t code_point) {
  for (const CodePointAddition& addition : unicode_additions()) {
    const std::string_view name = addition.property;
    const bool word = name.size() == 2 && (name[0] == 'L' || name[0] == 'M' || name == "Nd" || name == "Pc");
    if (word && code_point >= addition.first && code_point <= addition.last) return true;
  }
  return false;
}

size_t code_point_start(std::string_view text, size_t end) {
  size_t start = end - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
  return start;
}

}  // namespace

bool is_white_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_word_character(uint32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  if (is_word_category(category) || code_point == 0x200c || code_point == 0x200d) return true;
  if (is_alphabetic_symbol(code_point)) return true;
  return category == UTF8PROC_CATEGORY_CN && is_added_word_character(code_point);
}

size_t leading_white_space(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Char next = decode_utf8(text, pos);
    if (!is_white_space(next.code_point)) break;
    pos += next.length;
  }
  return pos;
}

size_t trailing_white_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t start = code_point_start(text, end);
    if (!is_white_space(decode_utf8(text, start).code_point)) break;
    end = start;
  }
  return text.size() - end;
}

uint32_t last_code_point(std::string_view text) {
  return decode_utf8(text, code_point_start(text, text.size())).code_point;
}

}  // namespace quire
