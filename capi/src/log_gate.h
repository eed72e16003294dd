// Where the log of a runtime goes: the host's sink, which is not called any more once the gate is closed,
// whoever still lives, and queues that follow it.
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

// Lines of the log as events of a queue. Any thread.
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

// Any thread may write, follow and close.
class LogGate {
 public:
  LogGate(int32_t level, quire_log_fn sink, void* user_data);

  // Calls the sink, without any lock held, and tells the followers. What the sink throws passes through.
  void write(LogLevel level, std::string_view line);
  // From now on, as its level is now; it is forgotten once its queue is.
  void follow(const std::shared_ptr<LogFollower>& follower);
  // Returns once no call of the sink is in progress and none will come. Must not be called by the sink.
  void close() noexcept;

  // The most detailed level that anybody wants to see.
  std::shared_ptr<const std::atomic<int32_t>> level() const { return level_; }

 private:
  void call_sink(LogLevel level, std::string_view line);

  // Calls of the sink in progress, with kClosed added once closed.
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  std::atomic<uint32_t> state_{0};
  const int32_t sink_level_;
  const quire_log_fn sink_;
  void* const user_data_;
  const std::shared_ptr<std::atomic<int32_t>> level_;
  Mutex mutex_;
  std::vector<std::weak_ptr<LogFollower>> followers_ QUIRE_GUARDED_BY(mutex_);
};

// A log that writes through the gate.
Log make_log(const std::shared_ptr<LogGate>& gate);

}  // namespace quire::capi
