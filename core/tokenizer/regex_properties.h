// Unicode properties in split patterns, as items of a PCRE2 character class.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Returns the items of \p{name}, a general category or a common script; nothing for other names.
std::optional<std::string> property_items(std::string_view name);
// Returns the items of \P{name}.
std::optional<std::string> negated_property_items(std::string_view name);

// Return the items of White_Space and its complement. PCRE2's \s also has U+180E.
std::string_view space_items();
std::string_view non_space_items();
// Returns the items of Oniguruma's word characters: letters, marks, decimal digits, connectors and the digits
// of Latin-1.
std::string word_items();

// Returns whether case folding does not change the property's set in either library.
bool is_case_closed(std::string_view name);

}  // namespace quire
