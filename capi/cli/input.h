// Input of commands: files, standard input and arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::cli {

class Interrupt;

// Reads a whole file, or standard input for "-". Throws Failure naming the file. An interrupt ends the
// reading like the end of the input.
std::string read_input(const std::string& path, const Interrupt& interrupt);

// Reader of standard input, line by line.
class LineReader {
 public:
  explicit LineReader(const Interrupt& interrupt) : interrupt_(interrupt) {}

  // Reads the next line, without its line break. Returns false at the end of the input or after an interrupt.
  bool next(std::string& line);

 private:
  const Interrupt& interrupt_;
  std::string buffer_;
  size_t begin_ = 0;  // start of the unread part
};

// Parses a JSON list of token ids. Throws Failure naming `where` if it is anything else.
std::vector<int32_t> parse_ids(std::string_view json, const std::string& where);

}  // namespace quire::cli
