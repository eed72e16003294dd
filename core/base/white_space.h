// White space of JSON, which answers of models use too.
#pragma once

#include <string_view>

namespace quire {

constexpr std::string_view kSpace = " \n\t\r";

inline bool is_space(char byte) {
  return kSpace.find(byte) != std::string_view::npos;
}

// Returns the text without the white space at its ends.
inline std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace quire
