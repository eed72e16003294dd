// The characters that the classes of a pattern stand for, in each dialect.
#pragma once

#include <string_view>

#include "core/constrained/char_set.h"

namespace quire {

// Whose rules a pattern follows where engines differ.
enum class PatternDialect {
  python,   // the module re, over str: classes are those of Unicode, and all of the text has to match
  ecma262,  // JSON Schema's patterns: \d and \w are ASCII, and the pattern may match anywhere in the text
};

CharSet digit_chars(PatternDialect dialect);     // \d
CharSet word_chars(PatternDialect dialect);      // \w
CharSet space_chars(PatternDialect dialect);     // \s
CharSet line_end_chars(PatternDialect dialect);  // what '.' does not take
// Of a general category by its short or long name ("L", "Lu", "Letter"); empty where there is none.
CharSet category_chars(std::string_view name);

}  // namespace quire
