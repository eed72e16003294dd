// Fault loops: the first allocation fails, then the second, and so on until a run completes without a fault;
// each point is run with one failure, and with all later allocations failing too.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>

#include "tests/support/allocation_faults.h"

namespace quire::testing {

struct FaultPoint {
  int64_t nth = 1;
  FaultSpan span = FaultSpan::once;
};

inline std::ostream& operator<<(std::ostream& out, const FaultPoint& point) {
  return out << "fault " << point.nth << (point.span == FaultSpan::once ? ", once" : ", for ever");
}

// Calls `run` with every point, which returns whether the fault was triggered. Returns the number of points
// that were. With a stride only every stride-th point is tried.
inline int64_t for_each_fault(const std::function<bool(const FaultPoint&)>& run, int64_t stride = 1) {
  int64_t num_points = 0;
  for (const FaultSpan span : {FaultSpan::once, FaultSpan::for_ever}) {
    for (int64_t nth = 1; run({nth, span}); nth += stride) ++num_points;
  }
  return num_points;
}

}  // namespace quire::testing
