#include "capi/cli/input.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "capi/cli/failure.h"
#include "capi/cli/interrupt.h"

namespace quire::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* why) {
  throw Failure(kExitFailed, "cannot read " + path + ": " + why);
}

// Appends available input to `text`. Returns false at the end of the input, or after an interrupt.
bool read_some(int fd, const std::string& path, const Interrupt& interrupt, std::string& text) {
  constexpr int kPollMs = 50;  // maximum delay until an interrupt is noticed
  pollfd waited{fd, POLLIN, 0};
  while (poll(&waited, 1, kPollMs) == 0) {
    if (interrupt.requested()) return false;
  }
  char buffer[1 << 16];
  const ssize_t count = read(fd, buffer, sizeof buffer);
  if (count < 0) refuse(path, std::strerror(errno));
  text.append(buffer, static_cast<size_t>(count));
  return count > 0 && !interrupt.requested();
}

}  // namespace

std::string read_input(const std::string& path, const Interrupt& interrupt) {
  const bool from_stdin = path == "-";
  const int fd = from_stdin ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) refuse(path, std::strerror(errno));
  const auto close_file = [&] {
    if (!from_stdin) close(fd);
  };
  std::string text;
  try {
    while (read_some(fd, from_stdin ? "standard input" : path, interrupt, text)) {
    }
  } catch (...) {
    close_file();
    throw;
  }
  close_file();
  return text;
}

bool LineReader::next(std::string& line) {
  for (size_t searched = begin_;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      line = buffer_.substr(begin_, end - begin_);
      begin_ = end + 1;
      return true;
    }
    buffer_.erase(0, begin_);
    begin_ = 0;
    searched = buffer_.size();
    if (!read_some(STDIN_FILENO, "standard input", interrupt_, buffer_)) break;
  }
  if (interrupt_.requested()) return false;
  line = std::move(buffer_);
  buffer_.clear();
  return !line.empty();
}

std::vector<int32_t> parse_ids(std::string_view json, const std::string& where) {
  const auto list = nlohmann::json::parse(json, nullptr, false);
  if (!list.is_array()) throw Failure(kExitFailed, where + ": not a JSON list of token ids");
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const auto& item : list) {
    const bool fits = item.is_number_integer() && item >= 0 && item <= std::numeric_limits<int32_t>::max();
    if (!fits) {
      throw Failure(kExitFailed, where + ": element " + std::to_string(ids.size()) + " is not a token id");
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

}  // namespace quire::cli
