// Translates regular expressions of tokenizer.json (Oniguruma, Ruby syntax, Unicode 16) to PCRE2 with the
// same matches. Constructs that have the same meaning or can be rewritten are accepted; all others are
// refused.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Throws ErrorCode::unsupported naming `where`, the construct and its byte offset. The only known difference:
// inside a character class, \P{..} and \p{C} use the Unicode version of PCRE2.
std::string oniguruma_to_pcre2(std::string_view pattern, std::string_view where);

}  // namespace quire
