// Code points that Unicode 15 and 16 assigned. The `tokenizers` library classifies by Unicode 16, but the
// linked PCRE2 may only support Unicode 14, so split patterns name these ranges in addition to \p{..}.
#pragma once

#include <cstdint>
#include <string_view>

#include <gsl/gsl>

namespace quire {

struct CodePointAddition {
  std::string_view property;  // a two-letter general category, or the name of a script
  uint32_t first;
  uint32_t last;
};

// Returns the additions, grouped by property and sorted within each.
gsl::span<const CodePointAddition> unicode_additions();

// Returns whether the library's normal forms leave the code point unchanged and do not treat it as a
// combining mark.
bool is_never_normalized(uint32_t code_point);

// Returns the lower case of a letter that utf8proc may not have; other code points unchanged.
uint32_t added_lower_case(uint32_t code_point);

}  // namespace quire
