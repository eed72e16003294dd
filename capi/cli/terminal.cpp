#include "capi/cli/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <utility>

#include "capi/cli/failure.h"

namespace quire::cli {
namespace {

// Returns the number of code points, which is close enough to columns for names and numbers.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool looks_numeric(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-');
}

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw Failure(kExitReaderGone, "");
  throw Failure(kExitFailed, std::string("cannot write to standard output: ") + std::strerror(errno));
}

void print_line(std::string_view text) {
  print(std::string(text) + "\n");
}

// Line breaks outside ASCII are escaped too, so that every line reader sees one line.
std::string to_json_line(const Json& value) {
  std::string line = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  static constexpr std::pair<std::string_view, std::string_view> kBreaks[] = {
      {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
  for (const auto& [text, escape] : kBreaks) {
    for (size_t at = line.find(text); at != std::string::npos; at = line.find(text, at)) {
      line.replace(at, text.size(), escape);
    }
  }
  return line;
}

void print_json(const Json& value) {
  print_line(to_json_line(value));
}

void note(std::string_view line) {
  write_stderr(std::string(line) + "\n");
}

bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}

Progress::Progress(bool enabled) : enabled_(enabled && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::show(std::string_view line) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  write_stderr("\r\x1b[K" + std::string(line));
  shown_ = true;
  last_ = now;
}

void Progress::clear() {
  if (shown_) write_stderr("\r\x1b[K");
  shown_ = false;
}

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::add(std::vector<std::string> row) {
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  const size_t num_columns = rows_.front().size();
  std::vector<size_t> widths(num_columns);
  std::vector<bool> numeric(num_columns, rows_.size() > 1);
  for (size_t row = 0; row < rows_.size(); ++row) {
    for (size_t column = 0; column < num_columns; ++column) {
      widths[column] = std::max(widths[column], width_of(rows_[row][column]));
      if (row > 0 && !looks_numeric(rows_[row][column])) numeric[column] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t column = 0; column < num_columns; ++column) {
      const std::string padding(widths[column] - width_of(row[column]), ' ');
      if (column > 0) line += "  ";
      line += numeric[column] ? padding + row[column] : row[column] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string format_number(double value, int decimals) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024.0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024.0;
    ++unit;
  }
  return format_number(bytes, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string format_token_rate(int64_t num_tokens, int64_t nanoseconds) {
  const double seconds = static_cast<double>(nanoseconds) * 1e-9;
  return format_number(nanoseconds > 0 ? static_cast<double>(num_tokens) / seconds : 0.0, 1) + " tokens/s";
}

}  // namespace quire::cli
