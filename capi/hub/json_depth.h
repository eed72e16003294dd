// Nesting of JSON texts of a hub, checked before they are parsed. The parser's callback would do it too, but
// takes quadratic time for a long list.
#pragma once

#include <string_view>

namespace quire::hub {

// Returns whether arrays and objects of a text are nested deeper than `most`. The text may be malformed.
inline bool exceeds_depth(std::string_view text, int most) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace quire::hub
