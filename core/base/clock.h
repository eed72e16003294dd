// The interface to time. The engine measures and waits through it alone, so that a simulation can control
// time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace quire {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  // Waits on `condition` until `ready()` is true or `deadline` passes; returns ready(). `lock` is held on
  // entry, on return and whenever `ready` runs.
  virtual bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                          TimePoint deadline, const std::function<bool()>& ready) const = 0;
};

// Returns the steady clock of the machine.
const Clock& steady_clock();

}  // namespace quire
