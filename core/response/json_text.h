// Literals for the source of a Lark grammar.
#pragma once

#include <string>
#include <string_view>

#include "core/base/json.h"

namespace quire {

// Returns the value as JSON in one line.
std::string json_text(const JsonValue& value);
// Returns a quoted string literal.
std::string lark_text(std::string_view text);
// Escapes slashes for a pattern between slashes.
std::string lark_pattern(std::string_view pattern);
// Returns a pattern that matches only this text.
std::string pattern_of_text(std::string_view text);
// Adds a text to the alternatives of a pattern that text must not contain. A mark is avoided in its spelling
// as text even if it is a special token: both read the same.
void avoid(std::string& pattern, std::string_view text);
// Returns a pattern in slashes of any text in which `pattern` matches nowhere.
std::string text_without(const std::string& pattern);

}  // namespace quire
