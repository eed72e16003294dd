// How every wait is asked for and how it ends: one shape for jobs, queues, results and closing.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/cancel_switch.h"
#include "core/base/clock.h"

namespace quire {

struct Wait {
  Wait(Duration how_long, std::shared_ptr<CancelSwitch> canceller = nullptr)  // NOLINT: a time is a wait
      : timeout(how_long), cancel(std::move(canceller)) {}

  bool cancelled() const { return cancel != nullptr && cancel->triggered(); }

  Duration timeout;
  std::shared_ptr<CancelSwitch> cancel;  // ends the wait, not what is waited for; may be null
};

enum class WaitEnd : int32_t {
  timeout = 0,
  ready = 1,      // what was waited for is here
  end = 2,        // it will never come: all of it was taken
  cancelled = 3,  // the switch of the wait was turned on
};

}  // namespace quire
