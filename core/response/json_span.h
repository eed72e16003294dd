// Strings of JSON: follows a value to find out what is inside of its strings, and escapes text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

// Follows one JSON value byte by byte.
class JsonSpan {
 public:
  // Returns false if the byte cannot be part of the value.
  bool take(char byte);
  bool in_string() const { return in_string_; }

 private:
  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool begun_ = false;
};

// Appends `bytes`, escaped for the inside of a JSON string.
void append_json_text(std::string& out, std::string_view bytes);

// Appends JSON with U+FFFD in place of bytes that are not UTF-8. An incomplete character at the end is kept
// in `cut`, which goes before the bytes of the next call.
void append_utf8_json(std::string& out, std::string_view bytes, std::string& cut);

}  // namespace quire
