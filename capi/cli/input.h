// Files and arguments that a command reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

class Interrupt;

// A whole file, or standard input for "-". Throws Failure naming it; an interrupt ends the wait for standard
// input as its end would.
std::string read_input(const std::string& path, const Interrupt& interrupt);

// Standard input line by line.
class LineReader {
 public:
  explicit LineReader(const Interrupt& interrupt) : interrupt_(interrupt) {}

  // The next line without its end; false at the end of the input or after an interrupt.
  bool next(std::string& line);

 private:
  const Interrupt& interrupt_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not handed out yet
};

// The ids of one JSON list; `where` names it in the Failure thrown where it is anything else.
std::vector<int32_t> parse_ids(std::string_view json, const std::string& where);

}  // namespace quire::cli
