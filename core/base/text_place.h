// Places in a text, for error messages about sources.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

// Returns the line, the column in characters, and the character at a byte of a text: `line 2, column 5, at
// "x"`. Counts from 1.
std::string place_in(std::string_view text, size_t position);

}  // namespace quire
