// Reader of messages that a person types or a pipe delivers.
#pragma once

#include <string>

#include "capi/cli/input.h"

namespace quire::cli {

// Reads messages, one per line. A message continues on the next line if a line ends in a backslash, or from
// """ at its beginning to """ at the end of a line.
class MessageReader {
 public:
  // `prompts`: a person types, so show a prompt.
  MessageReader(const Interrupt& interrupt, bool prompts) : lines_(interrupt), prompts_(prompts) {}

  // Reads the next message. Returns false at the end of the input, or after an interrupt.
  bool next(std::string& message);

 private:
  bool next_line(const char* prompt, std::string& line);

  LineReader lines_;
  bool prompts_;
};

}  // namespace quire::cli
