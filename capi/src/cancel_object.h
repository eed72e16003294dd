// The object of a quire_cancel.
#pragma once

#include <memory>

#include "capi/src/handle.h"
#include "core/base/cancel_switch.h"
#include "core/base/wait.h"

namespace quire::capi {

struct CancelObject final : Object {
  const std::shared_ptr<CancelSwitch> cancel = std::make_shared<CancelSwitch>();
};

template <>
struct HandleTraits<quire_cancel> {
  using Object = CancelObject;
  static constexpr HandleType type = HandleType::cancel;
};

// The switch of an optional parameter: null for NULL.
std::shared_ptr<CancelSwitch> cancel_argument(quire_cancel* cancel);
// The two parameters of every wait; refuses to wait in a callback, where `what` is not allowed.
Wait wait_argument(int64_t timeout_ns, quire_cancel* cancel, std::string_view what);

}  // namespace quire::capi
