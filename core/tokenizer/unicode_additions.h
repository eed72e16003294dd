// Code points that Unicode 15 and 16 assigned. The `tokenizers` library classifies by Unicode 16, while the
// PCRE2 this is linked with may know no more than Unicode 14; split patterns name these ranges besides
// \p{..}.
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

// Grouped by property, ascending in each.
gsl::span<const CodePointAddition> unicode_additions();

// True for a code point that the library's normal forms leave as it is, and treat as no combining mark.
bool is_never_normalized(uint32_t code_point);

// The small letter of a capital that utf8proc may not know; any other code point itself.
uint32_t added_lower_case(uint32_t code_point);

}  // namespace quire
