// What a person or a script sees: standard output that reports its own failures, and a progress line that
// only a terminal gets.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace quire::cli {

using Json = nlohmann::ordered_json;

// Writes to standard output and flushes. Throws Failure where it cannot: kExitReaderGone where the reader has
// closed the pipe.
void print(std::string_view text);
void print_line(std::string_view text);
// One line of JSON. Text that is not UTF-8 is repaired, not refused.
void print_json(const Json& value);
std::string to_json_line(const Json& value);

// One line on standard error; failures are nobody's business.
void note(std::string_view line);

// A line on standard error that is overwritten as work goes on; nothing at all where standard error is no
// terminal. Gone once destroyed.
class Progress {
 public:
  explicit Progress(bool enabled = true);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows the line, unless another was shown within the last tenth of a second.
  void show(std::string_view line);
  // Takes the line away so that other output can be written.
  void clear();
  bool enabled() const { return enabled_; }

 private:
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

bool stdout_is_terminal();

// Columns aligned by their widest cell; numbers (every cell after the header parses as one) to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// 1536 -> "1.5 KiB".
std::string format_bytes(double bytes);
// With the given number of decimals.
std::string format_number(double value, int decimals);
// "12.3 tokens/s".
std::string format_token_rate(int64_t num_tokens, int64_t nanoseconds);

}  // namespace quire::cli
