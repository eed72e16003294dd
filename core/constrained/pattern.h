// Regular expressions as users write them, by the rules of Python's re or of ECMA 262, made into languages.
// Lookahead is supported; what no regular language can say (back-references) and what is not read here
// (lookbehind, \b, atomic groups) is ErrorCode::unsupported, a malformed pattern ErrorCode::format.
#pragma once

#include <string_view>

#include "core/constrained/language_store.h"
#include "core/constrained/pattern_chars.h"

namespace quire {

struct PatternOptions {
  PatternDialect dialect = PatternDialect::python;
  bool ignore_case = false;  // of ASCII letters
  bool dot_all = false;      // '.' also takes line ends
};

LanguageId parse_pattern(std::string_view pattern, const PatternOptions& options, LanguageStore& store);

}  // namespace quire
