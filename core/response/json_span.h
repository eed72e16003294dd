// One JSON value as it is written, piece by piece: where it ends, and its text with what strict readers
// refuse in strings escaped.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

class JsonSpan {
 public:
  enum class Step {
    taken,   // the byte is part of the value
    last,    // and the value is over with it
    refused  // the byte is none of the value's: a value without brackets or quotes has ended, or is none
  };

  // Appends what the byte stands for to `out`.
  Step take(char byte, std::string& out);
  bool in_string() const { return in_string_; }

 private:
  Step take_in_string(char byte, std::string& out);

  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool begun_ = false;
};

// Appends `bytes` as they stand inside of a JSON string.
void append_json_text(std::string& out, std::string_view bytes);

}  // namespace quire
