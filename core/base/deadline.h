// Points in time from durations of a caller.
#pragma once

#include "core/base/clock.h"

namespace quire {

// max() where the sum would pass it: waiting longer than the clock can tell is waiting for ever.
inline TimePoint deadline_after(TimePoint now, Duration timeout) {
  return timeout >= TimePoint::max() - now ? TimePoint::max() : now + timeout;
}

inline double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace quire
