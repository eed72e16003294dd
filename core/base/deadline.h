// Deadlines from the durations that callers pass.
#pragma once

#include "core/base/clock.h"

namespace quire {

// Returns now + timeout, or max() if the sum would exceed it: such a wait never ends.
inline TimePoint deadline_after(TimePoint now, Duration timeout) {
  return timeout >= TimePoint::max() - now ? TimePoint::max() : now + timeout;
}

inline double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace quire
