// Regular expressions as users write them (ECMA 262, Python and Rust agree on what is read here), made into
// languages. Lookahead is supported; what no regular language can say (back-references) and what is not read
// here (lookbehind, \b, atomic groups) is ErrorCode::unsupported, a malformed pattern ErrorCode::format.
#pragma once

#include <string_view>

#include "core/constrained/language_store.h"

namespace quire {

struct PatternOptions {
  bool search = false;       // the pattern may match anywhere in the text, as in JSON Schema; else all of it
  bool ignore_case = false;  // of ASCII letters
  bool dot_all = false;      // '.' also takes line ends
};

LanguageId parse_pattern(std::string_view pattern, const PatternOptions& options, LanguageStore& store);

}  // namespace quire
