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

}  // namespace quire
