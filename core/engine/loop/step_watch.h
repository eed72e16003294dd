// Step times, published for other threads.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/engine/scheduler/fastest_steps.h"

namespace quire {

// Written by the engine's thread; any thread may read.
class StepWatch {
 public:
  explicit StepWatch(int32_t max_step_tokens) {
    const MutexLock lock(mutex_);
    fastest_.max_step_tokens = max_step_tokens;
  }

  void begin(TimePoint now) noexcept { started_ns_ = std::max<int64_t>(1, now.time_since_epoch().count()); }
  void end() noexcept { started_ns_ = 0; }
  void observe(int32_t num_tokens, Duration took) noexcept {
    const MutexLock lock(mutex_);
    fastest_.observe(num_tokens, took);
  }

  // Returns the start of the running step in nanoseconds of the clock; 0 between steps.
  int64_t started_ns() const { return started_ns_.load(std::memory_order_relaxed); }
  FastestSteps fastest() const {
    const MutexLock lock(mutex_);
    return fastest_;
  }

 private:
  std::atomic<int64_t> started_ns_{0};
  mutable Mutex mutex_;
  FastestSteps fastest_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
