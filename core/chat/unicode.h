// Properties of code points, defined as in Python's str.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/chat/text.h"

namespace quire::chat {

bool is_space(uint32_t code_point);
bool is_line_end(uint32_t code_point);
bool is_printable(uint32_t code_point);
bool is_alphabetic(uint32_t code_point);
bool is_decimal(uint32_t code_point);
bool is_digit(uint32_t code_point);
bool is_numeric(uint32_t code_point);
bool is_word_char(uint32_t code_point);  // \w
bool is_upper(uint32_t code_point);
bool is_lower(uint32_t code_point);
bool is_title(uint32_t code_point);
bool is_cased(uint32_t code_point);

enum class CaseChange { upper, lower, title, swap, fold };

// Returns one code point in the requested case; upper and title case may have several code points.
std::string change_case(uint32_t code_point, CaseChange change);

// Return the number of bytes of white space at the beginning and at the end of `text`.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

// Returns where the code point that ends at `end` begins.
size_t char_start_before(std::string_view text, size_t end);

}  // namespace quire::chat
