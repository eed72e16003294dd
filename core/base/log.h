// The log sink of one runtime. There is no global log: code that writes gets a reference.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <fmt/core.h>

namespace quire {

enum class LogLevel : int32_t { error = 1, warning = 2, info = 3, debug = 4 };

// A log that any thread may write to. No lock of the library is held while the sink is called; exceptions of
// the sink are swallowed. Prompt text is never written.
class Log {
 public:
  using Sink = std::function<void(LogLevel, std::string_view)>;

  Log() = default;
  Log(LogLevel level, Sink sink)
      : Log(std::make_shared<const std::atomic<int32_t>>(static_cast<int32_t>(level)), std::move(sink)) {}
  // `level` may change while lines are written; 0 turns the log off.
  Log(std::shared_ptr<const std::atomic<int32_t>> level, Sink sink)
      : level_(std::move(level)), sink_(std::move(sink)) {}

  bool enabled(LogLevel level) const noexcept {
    return sink_ && static_cast<int32_t>(level) <= level_->load(std::memory_order_relaxed);
  }
  void write(LogLevel level, std::string_view line) const noexcept;

  template <typename... Args>
  void operator()(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const noexcept {
    if (!enabled(level)) return;
    try {
      write(level, fmt::format(format, std::forward<Args>(args)...));
    } catch (...) {  // running out of memory for a log line is not a failure
    }
  }

 private:
  std::shared_ptr<const std::atomic<int32_t>> level_;
  Sink sink_;
};

}  // namespace quire
