// Escapes in loosely written strings, converted to those of JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/response/marks.h"

namespace quire {

enum class EscapeRules : unsigned char {
  json,   // also \'; a backslash without a meaning is a character
  python  // also \x41, \U0001F600, \a, \v, \0 and a backslash before the end of a line
};

// Reads the escape at the beginning of `text`, with its backslash, and appends its meaning to `json`, for the
// inside of a string. Returns the number of bytes read; 0 if more text is needed. Half of a surrogate pair
// becomes U+FFFD.
size_t take_escape(std::string_view text, EscapeRules rules, MoreToCome more, std::string& json);

}  // namespace quire
