// Text shown to people: always one line, whatever names from files and requests it contains.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Returns whether a terminal or a log would not show the code point as itself: control characters, line ends
// and characters that change the text direction.
bool is_unprintable(char32_t code_point) noexcept;

// Returns `text` with unprintable code points and invalid UTF-8 escaped, as in "\x1b" and "\u{202e}".
std::string escape_unprintable(std::string_view text);

}  // namespace quire
