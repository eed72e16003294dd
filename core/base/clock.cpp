#include "core/base/clock.h"

namespace quire {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }

  bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, TimePoint deadline,
                  const std::function<bool()>& ready) const override {
    if (deadline == TimePoint::max()) {
      condition.wait(lock, ready);
      return true;
    }
    return condition.wait_until(lock, deadline, ready);
  }
};

}  // namespace

const Clock& steady_clock() {
  // Never destroyed: threads of the engine may outlive the end of main.
  static const auto* const instance = new SteadyClock;
  return *instance;
}

}  // namespace quire
