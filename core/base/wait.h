// The parameters and results of every blocking wait: for jobs, queues, results and closing.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/cancel_switch.h"
#include "core/base/clock.h"

namespace quire {

struct Wait {
  Wait(Duration how_long,
       std::shared_ptr<CancelSwitch> canceller = nullptr)  // NOLINT: conversion from a duration is intended
      : timeout(how_long), cancel(std::move(canceller)) {}

  bool cancelled() const { return cancel != nullptr && cancel->triggered(); }

  Duration timeout;
  std::shared_ptr<CancelSwitch> cancel;  // ends the wait, not the operation waited for; may be null
};

enum class WaitEnd : int32_t {
  timeout = 0,
  ready = 1,      // the result of the wait is available
  end = 2,        // it will never be: everything was taken
  cancelled = 3,  // the cancel switch of the wait was turned on
};

}  // namespace quire
