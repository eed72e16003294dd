// Translates regular expressions of tokenizers to PCRE2 with the same matches. Constructs that have the same
// meaning or can be rewritten are accepted; all others are refused.
#pragma once

#include <string>
#include <string_view>

#include "core/tokenizer/regex_properties.h"

namespace quire {

struct RegexTranslation {
  RegexDialect dialect = RegexDialect::oniguruma;
  // True if an attempt to match begins where the search began, which is what \G matches.
  bool begins_at_search_start = true;
};

// Throws ErrorCode::unsupported naming `where`, the construct and its byte offset. The only known difference:
// \p{C} and \p{Cn} use the Unicode version of PCRE2.
std::string to_pcre2(std::string_view pattern, std::string_view where,
                     const RegexTranslation& translation = {});

}  // namespace quire
