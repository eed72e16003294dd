#include <quire/cancel.h>

#include "capi/src/arguments.h"
#include "capi/src/callback_scope.h"
#include "capi/src/cancel_object.h"
#include "capi/src/guard.h"

namespace quire::capi {

std::shared_ptr<CancelSwitch> cancel_argument(quire_cancel* cancel) {
  if (cancel == nullptr) return nullptr;
  return Pinned(cancel, "cancel")->cancel;
}

Wait wait_argument(int64_t timeout_ns, quire_cancel* cancel, std::string_view what) {
  Wait wait{timeout_argument(timeout_ns), cancel_argument(cancel)};
  if (timeout_ns != 0) refuse_in_callback(what);
  return wait;
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
