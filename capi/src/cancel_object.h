// Object of a quire_cancel.
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

// Returns the switch of an optional parameter, or null for NULL.
std::shared_ptr<CancelSwitch> cancel_argument(quire_cancel* cancel);
// Converts the two parameters of every waiting function. Throws if it would wait inside a callback; `what`
// names the function.
Wait wait_argument(int64_t timeout_ns, quire_cancel* cancel, std::string_view what);

}  // namespace quire::capi
