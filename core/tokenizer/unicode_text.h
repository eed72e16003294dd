// Code point properties, defined as in the `tokenizers` library.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

// Unicode's White_Space.
bool is_white_space(uint32_t code_point);
// Word characters of Unicode regular expressions (UTS 18): letters, marks, decimal digits, connector
// punctuation and joiners.
bool is_word_character(uint32_t code_point);

// Return the number of bytes of white space at the beginning and at the end of `text`, which is valid UTF-8.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);
// Returns the last code point of a non-empty text.
uint32_t last_code_point(std::string_view text);

}  // namespace quire
