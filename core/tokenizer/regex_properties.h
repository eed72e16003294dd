// Character properties of split patterns, spelled as items of a PCRE2 character class.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// \p{name}: a general category or one of the common scripts; nothing for any other name.
std::optional<std::string> property_items(std::string_view name);
// \P{name}.
std::optional<std::string> negated_property_items(std::string_view name);

// White_Space, which PCRE2's \s takes to have U+180E as well.
std::string_view space_items();
std::string_view non_space_items();
// Oniguruma's word characters: letters, marks, decimal digits, connectors and the digits of Latin-1.
std::string word_items();

// Whether case folding leaves the property's set as it is in both libraries.
bool is_case_closed(std::string_view name);

}  // namespace quire
