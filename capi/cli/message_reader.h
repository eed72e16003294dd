// Messages as a person types them or a pipe brings them.
#pragma once

#include <string>

#include "capi/cli/input.h"

namespace quire::cli {

// A line is a message. It goes on in the next where it ends in a backslash, or from """ at its beginning to
// """ at the end of a line.
class MessageReader {
 public:
  // `prompts`: somebody types, and is shown where.
  MessageReader(const Interrupt& interrupt, bool prompts) : lines_(interrupt), prompts_(prompts) {}

  // False at the end of the input, or after an interrupt.
  bool next(std::string& message);

 private:
  bool next_line(const char* prompt, std::string& line);

  LineReader lines_;
  bool prompts_;
};

}  // namespace quire::cli
