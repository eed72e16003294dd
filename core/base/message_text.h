// Text that is shown to people: one line, whatever names from files and requests are in it.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Whether a terminal or a log would not show the code point as itself: control characters, ends of lines, and
// what turns the direction of the text around it.
bool is_unprintable(char32_t code_point) noexcept;

// `text` with these, and bytes that are no UTF-8, escaped as "\x1b" and "\u{202e}".
std::string escape_unprintable(std::string_view text);

}  // namespace quire
