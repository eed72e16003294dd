// A switch that is turned on once, to end what another thread waits for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>

#include "core/base/mutex.h"

namespace quire {

// Any thread.
class CancelSwitch {
 public:
  // Runs `action` when the switch is turned on while this lives, on the thread that turns it; at once where
  // it is on already. The action must not throw or wait, nor touch the switch.
  class Listener {
   public:
    // A null switch never turns on.
    Listener(std::shared_ptr<CancelSwitch> cancel, std::function<void()> action);
    // Wakes those that wait at `condition` under `mutex`. The switch takes the mutex while it holds its own:
    // listen without it.
    Listener(std::shared_ptr<CancelSwitch> cancel, Mutex& mutex, std::condition_variable& condition);
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    // Afterwards the action runs no more, nor is it running.
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
