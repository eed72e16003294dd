// Unicode properties in split patterns, as items of a PCRE2 character class.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// The library that a pattern is written for.
enum class RegexDialect {
  oniguruma,  // tokenizer.json (Ruby syntax, Unicode 16)
  rust,       // tiktoken and tekken.json (fancy-regex, Unicode 16)
};

// A place in a pattern where an escape can be.
enum class RegexPlace { pattern, char_class };

// Returns the items of \p{name}, a general category or a common script; nothing for other names.
std::optional<std::string> property_items(std::string_view name);

// Return the items of White_Space and its complement. PCRE2's \s also has U+180E.
std::string_view space_items();
std::string_view non_space_items();
// Returns the items of word characters: letters, marks, decimal digits and connectors. Rust has also the
// joiners; Oniguruma, outside of classes, the superscript digits and the fractions of Latin-1.
std::string word_items(RegexDialect dialect, RegexPlace place);

// Returns whether case folding does not change the property's set in either library.
bool is_case_closed(std::string_view name);

}  // namespace quire
