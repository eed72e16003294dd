// From the regular expressions of tokenizer.json (Oniguruma, Ruby syntax, Unicode 16) to PCRE2's with the
// same matches. Only constructs whose meaning is the same, or can be spelled out, pass; every other is
// refused.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Throws ErrorCode::unsupported, naming `where`, the construct and its byte offset. The one known difference:
// inside a character class, \P{..} and \p{C} go by the Unicode version of PCRE2.
std::string oniguruma_to_pcre2(std::string_view pattern, std::string_view where);

}  // namespace quire
