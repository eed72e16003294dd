// Output for a person or a script: standard output with failure checks, and a progress line for terminals.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace quire::cli {

using Json = nlohmann::ordered_json;

// Writes to standard output and flushes. Throws Failure on an error, with kExitReaderGone if the reader has
// closed the pipe.
void print(std::string_view text);
void print_line(std::string_view text);
// Writes one line of JSON. Text that is not UTF-8 is repaired.
void print_json(const Json& value);
std::string to_json_line(const Json& value);

// Writes one line to standard error; failures are ignored.
void note(std::string_view line);

// Progress line on standard error, overwritten as the work continues. It shows nothing if standard error is
// no terminal. The destructor removes it.
class Progress {
 public:
  explicit Progress(bool enabled = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows the line, unless another was shown within the last tenth of a second.
  void show(std::string_view line);
  // Removes the line so that other output can be written.
  void clear();
  bool enabled() const { return enabled_; }

 private:
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

bool stdout_is_terminal();

// Text table with aligned columns; a column whose cells after the header are all numbers is aligned to the
// right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Formats a size: 1536 becomes "1.5 KiB".
std::string format_bytes(double bytes);
// Formats a number with the given number of decimals.
std::string format_number(double value, int decimals);
// Formats a rate: "12.3 tokens/s".
std::string format_token_rate(int64_t num_tokens, int64_t nanoseconds);

}  // namespace quire::cli
