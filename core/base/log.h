// The log sink of one runtime. There is no global log: who writes was handed a reference.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include <fmt/core.h>

namespace quire {

enum class LogLevel : int32_t { error = 1, warning = 2, info = 3, debug = 4 };

// Any thread may write. The sink is called without any lock of the library held; what it throws is
// swallowed. Prompt text is never written.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  Log() = default;
  Log(LogLevel level, Sink sink) : level_(level), sink_(std::move(sink)) {}

  bool enabled(LogLevel level) const noexcept { return sink_ && level <= level_; }
  void write(LogLevel level, std::string_view line) const noexcept;

  template <typename... Args>
  void operator()(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const noexcept {
    if (!enabled(level)) return;
    try {
      write(level, fmt::format(format, std::forward<Args>(args)...));
    } catch (...) {  // out of memory while formatting a log line is not worth a failure
    }
  }

 private:
  LogLevel level_ = LogLevel::warning;
  Sink sink_;
};

}  // namespace quire
