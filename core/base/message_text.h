// Text shown to people: always one line, whatever names from files and requests it contains.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace quire {

// Returns whether a terminal or a log would not show the code point as itself: control characters, line ends
// and characters that change the text direction.
bool is_unprintable(char32_t code_point) noexcept;

// Returns `text` with unprintable code points and invalid UTF-8 escaped, as in "\x1b" and "\u{202e}".
std::string escape_unprintable(std::string_view text);

// Message of an error if there is no memory for its own. So short that no string needs memory for it.
inline constexpr std::string_view kNoMemoryForMessage = "no memory left";

// Sets a text that may be empty, such as the name of a parameter, on paths that must not fail. If there is no
// memory for it, it becomes empty.
void set_text(std::string& target, std::string_view text) noexcept;

// Returns a text that many may hold, so that copying it cannot fail; null for an empty text, and if there is
// no memory for it.
std::shared_ptr<const std::string> share_text(std::string_view text) noexcept;

}  // namespace quire
