// Classes of code points as the `tokenizers` library knows them for BERT's and SentencePiece's steps: frozen
// at the Unicode versions of its tables, so that they are listed here and not asked of a library that moves
// on.
#pragma once

#include <cstdint>

namespace quire {

// What cleaning removes: control and format characters, private use, U+0000 and U+FFFD; not \t, \n and \r.
bool is_cleaned_away(uint32_t code_point);
// Mn, and all of M.
bool is_nonspacing_mark(uint32_t code_point);
bool is_accent_mark(uint32_t code_point);
// P, and the symbols of ASCII.
bool is_punctuation(uint32_t code_point);
bool is_chinese_character(uint32_t code_point);

// A number for the script, the same for Han, Hiragana and Katakana; kAnyScript for the space and for code
// points that have none, which belong to whatever is before them.
inline constexpr uint8_t kAnyScript = 255;
uint8_t script_of(uint32_t code_point);

}  // namespace quire
