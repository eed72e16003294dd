// A one-shot cancellation flag: turning it on ends what another thread waits for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>

#include "core/base/mutex.h"

namespace quire {

// One-shot cancellation flag, safe to use from any thread.
class CancelSwitch {
 public:
  // An action that runs once, when the switch is turned on, on the thread that turns it on. It runs at once
  // if the switch is on already. The action must not throw, wait or use the switch.
  class Listener {
   public:
    // A null switch never turns on.
    Listener(std::shared_ptr<CancelSwitch> cancel, std::function<void()> action);
    // Wakes the threads that wait on `condition` under `mutex`. The switch locks `mutex` while it holds its
    // own mutex, so do not hold `mutex` here.
    Listener(std::shared_ptr<CancelSwitch> cancel, Mutex& mutex, std::condition_variable& condition);
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    // After the destructor returns, the action neither runs nor will run.
    ~Listener();

   private:
    std::shared_ptr<CancelSwitch> cancel_;
    std::list<std::function<void()>>::iterator place_;
  };

  void trigger() noexcept;
  bool triggered() const { return flag_.load(std::memory_order_acquire); }
  const std::atomic<bool>& flag() const { return flag_; }

 private:
  std::atomic<bool> flag_{false};
  Mutex mutex_;
  std::list<std::function<void()>> actions_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
