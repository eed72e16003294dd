// Parser for regular expressions, by the rules of Python's re or of ECMA 262; results are regular languages.
// Lookahead is supported. Back-references, which are not regular, lookbehind, \b and atomic groups throw
// ErrorCode::unsupported; a malformed pattern throws ErrorCode::format.
#pragma once

#include <string_view>

#include "core/constrained/language_store.h"
#include "core/constrained/pattern_chars.h"

namespace quire {

struct PatternOptions {
  PatternDialect dialect = PatternDialect::python;
  bool ignore_case = false;  // for ASCII letters
  bool dot_all = false;      // '.' also matches line ends
};

LanguageId parse_pattern(std::string_view pattern, const PatternOptions& options, LanguageStore& store);

}  // namespace quire
