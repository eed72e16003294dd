// A signal that wakes the engine thread when there is work for it.
#pragma once

#include <condition_variable>

#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace quire {

// A signal that any thread may send and one thread waits for. A notification that arrives while no thread
// waits is kept.
class EngineSignal {
 public:
  void notify() noexcept {
    const MutexLock lock(mutex_);
    pending_ = true;
    condition_.notify_all();
  }

  // Returns at once if there was a notification since the last wait; otherwise at the next notification or at
  // the deadline.
  void wait(const Clock& clock, TimePoint deadline) {
    MutexLock lock(mutex_);
    clock.wait_until(condition_, lock.native(), deadline,
                     [this]() QUIRE_NO_THREAD_ANALYSIS { return pending_; });
    pending_ = false;
  }

 private:
  Mutex mutex_;
  std::condition_variable condition_;
  bool pending_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire
