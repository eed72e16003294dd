// Reads one JSON value byte by byte: finds its end, and escapes characters in strings that strict parsers
// refuse.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

class JsonSpan {
 public:
  enum class Step {
    taken,   // the byte is part of the value
    last,    // the byte is the last one of the value
    refused  // the byte is not part of the value, which has ended (if unquoted) or is malformed
  };

  // Reads one byte and appends its JSON form to `out`.
  Step take(char byte, std::string& out);
  bool in_string() const { return in_string_; }

 private:
  Step take_in_string(char byte, std::string& out);

  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool begun_ = false;
};

// Appends `bytes`, escaped for the inside of a JSON string.
void append_json_text(std::string& out, std::string_view bytes);

}  // namespace quire
