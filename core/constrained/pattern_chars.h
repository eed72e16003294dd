// The characters of each pattern class, in each dialect of regular expressions.
#pragma once

#include <string_view>

#include "core/constrained/char_set.h"

namespace quire {

// The dialect that decides where regular expression engines differ.
enum class PatternDialect {
  python,   // module re on str: Unicode classes, and the whole text must match
  ecma262,  // JSON Schema: \d and \w are ASCII, and the pattern may match anywhere in the text
};

CharSet digit_chars(PatternDialect dialect);     // \d
CharSet word_chars(PatternDialect dialect);      // \w
CharSet space_chars(PatternDialect dialect);     // \s
CharSet line_end_chars(PatternDialect dialect);  // characters that '.' does not match
// Returns the characters of a general category by its short or long name ("L", "Lu", "Letter"); empty if
// unknown.
CharSet category_chars(std::string_view name);

}  // namespace quire
