#include "core/base/cancel_switch.h"

#include <utility>

namespace quire {

CancelSwitch::Listener::Listener(std::shared_ptr<CancelSwitch> cancel, std::function<void()> action)
    : cancel_(std::move(cancel)) {
  if (cancel_ == nullptr) return;
  const MutexLock lock(cancel_->mutex_);
  place_ = cancel_->actions_.insert(cancel_->actions_.end(), std::move(action));
  if (cancel_->triggered()) (*place_)();
}

CancelSwitch::Listener::Listener(std::shared_ptr<CancelSwitch> cancel, Mutex& mutex,
                                 std::condition_variable& condition)
    : Listener(std::move(cancel), [&mutex, &condition] {
        const MutexLock lock(mutex);
        condition.notify_all();
      }) {}

CancelSwitch::Listener::~Listener() {
  if (cancel_ == nullptr) return;
  const MutexLock lock(cancel_->mutex_);
  cancel_->actions_.erase(place_);
}

void CancelSwitch::trigger() noexcept {
  const MutexLock lock(mutex_);
  if (flag_.exchange(true, std::memory_order_acq_rel)) return;
  for (const auto& action : actions_) action();
}

}  // namespace quire
