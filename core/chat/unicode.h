// Questions about code points, answered as Python's str does.
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

// One code point in the case asked for; capitals may have several.
std::string change_case(uint32_t code_point, CaseChange change);

// Bytes of white space that `text` begins and ends with.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

// The code point that ends at `end`, and where it begins.
size_t char_start_before(std::string_view text, size_t end);

}  // namespace quire::chat
