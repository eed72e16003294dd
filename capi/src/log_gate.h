// Destinations of a runtime's log: the host's sink and queues. The sink is never called after the gate was
// closed, even if parts of the runtime are still alive.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <quire/options.h>

#include "core/base/log.h"
#include "core/base/mutex.h"
#include "core/engine/events/event_stream.h"

namespace quire::capi {

// Passes log lines to a queue as events. Thread-safe.
class LogFollower {
 public:
  explicit LogFollower(const std::shared_ptr<EventQueue>& queue);
  void set_level(int32_t level) { level_ = level; }
  int32_t level() const { return level_; }
  void write(LogLevel level, std::string_view line);

 private:
  std::atomic<int32_t> level_{QUIRE_LOG_OFF};
  const std::shared_ptr<EventStream> stream_;
};

// Thread-safe.
class LogGate {
 public:
  LogGate(int32_t level, quire_log_fn sink, void* user_data);

  // Calls the sink, without holding a lock, and adds the line to the followers. Exceptions of the sink
  // propagate.
  void write(LogLevel level, std::string_view line);
  // Adds a follower with its current level, or updates it. A destroyed follower is removed.
  void follow(const std::shared_ptr<LogFollower>& follower);
  // Returns once no call of the sink is running and none will follow. The sink must not call it.
  void close() noexcept;

  // Returns the most detailed level of the sink and all followers.
  std::shared_ptr<const std::atomic<int32_t>> level() const { return level_; }

 private:
  void call_sink(LogLevel level, std::string_view line);

  // Number of running calls of the sink, plus kClosed once closed.
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  std::atomic<uint32_t> state_{0};
  const int32_t sink_level_;
  const quire_log_fn sink_;
  void* const user_data_;
  const std::shared_ptr<std::atomic<int32_t>> level_;
  Mutex mutex_;
  std::vector<std::weak_ptr<LogFollower>> followers_ QUIRE_GUARDED_BY(mutex_);
};

// Returns a log that writes through the gate.
Log make_log(const std::shared_ptr<LogGate>& gate);

}  // namespace quire::capi
