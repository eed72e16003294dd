// Code point classes of the `tokenizers` library for the steps of BERT and SentencePiece. They are frozen at
// the Unicode versions of that library's tables. They are therefore listed here instead of taken from a
// Unicode library, which would change with its version.
#pragma once

#include <cstdint>

namespace quire {

// Returns whether cleaning removes it: control and format characters, private use, U+0000 and U+FFFD, but not
// \t,
//  and \r.
bool is_cleaned_away(uint32_t code_point);
// General category Mn, and all of M.
bool is_nonspacing_mark(uint32_t code_point);
bool is_accent_mark(uint32_t code_point);
// General category P, and the ASCII symbols.
bool is_punctuation(uint32_t code_point);
bool is_chinese_character(uint32_t code_point);

// Returns a number for the script; Han, Hiragana and Katakana have the same. kAnyScript is for the space and
// for code points without a script, which belong to the script before them.
inline constexpr uint8_t kAnyScript = 255;
uint8_t script_of(uint32_t code_point);

}  // namespace quire
