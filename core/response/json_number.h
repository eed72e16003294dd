// Numbers as JSON writes them.
#pragma once

#include <string>
#include <string_view>

namespace quire {

// Returns a JSON number with the value of `word`, which may have a plus sign, leading zeros, underscores
// between digits, and no digit on one side of its point. A JSON number is returned unchanged. Returns an
// empty text if the word is no number, or one that readers of JSON do not take: no double has its value, or
// it has more than a thousand characters.
std::string json_number(std::string_view word);

}  // namespace quire
