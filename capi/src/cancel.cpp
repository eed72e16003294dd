#include <quire/cancel.h>

#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"

namespace quire::capi {

CancelSwitch::Listener::Listener(std::shared_ptr<CancelSwitch> cancel, std::function<void()> action)
    : cancel_(std::move(cancel)) {
  if (cancel_ == nullptr) return;
  const MutexLock lock(cancel_->mutex_);
  place_ = cancel_->actions_.insert(cancel_->actions_.end(), std::move(action));
  if (cancel_->triggered()) (*place_)();
}

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

std::shared_ptr<CancelSwitch> cancel_argument(quire_cancel* cancel) {
  if (cancel == nullptr) return nullptr;
  return Pinned(cancel, "cancel")->cancel;
}

}  // namespace quire::capi

using namespace quire::capi;

quire_cancel* quire_cancel_create(quire_error** error) {
  return guard(error, static_cast<quire_cancel*>(nullptr), [] { return make_handle<quire_cancel>(); });
}

int32_t quire_cancel_trigger(quire_cancel* cancel, quire_error** error) {
  return guard(error, 0, [&] {
    Pinned(cancel, "cancel")->cancel->trigger();
    return 1;
  });
}

int32_t quire_cancel_is_triggered(quire_cancel* cancel, quire_error** error) {
  return guard(error, -1, [&] { return Pinned(cancel, "cancel")->cancel->triggered() ? 1 : 0; });
}

int32_t quire_cancel_free(quire_cancel* handle, quire_error** error) {
  return free_handle(handle, error);
}
