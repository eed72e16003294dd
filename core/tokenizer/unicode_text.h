// Small questions about code points, answered as the `tokenizers` library does.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

// White_Space of Unicode.
bool is_white_space(uint32_t code_point);
// Letters, marks, decimal digits, connector punctuation and the joiners: the word characters of Unicode's
// regular expressions (UTS 18).
bool is_word_character(uint32_t code_point);

// Bytes of white space at the beginning and at the end of `text`, which is valid UTF-8.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);
// The last code point of a text that is not empty.
uint32_t last_code_point(std::string_view text);

}  // namespace quire
