// Points at which the threads of a schedule change places: each entry into the C interface, and, but for
// builds with sanitizers, which have their own, each lock that is taken or given back anywhere in the
// process. What happens at a point is drawn from a seed: mostly nothing; at a few places of each thread it
// stands until the others have passed some points of their own, or can not.
#pragma once

#include <cstdint>

namespace quire::testing {

// One at a time, of two threads. Others pass points too and are put aside now and then.
class Schedule {
 public:
  explicit Schedule(uint64_t seed) noexcept;
  ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // The calling thread is this one of the two (0 or 1) until it leaves.
  void enter(int32_t which) noexcept;
  void leave() noexcept;
  // Once both have left: a number for the order in which they passed their points.
  static uint64_t order() noexcept;
};

// To be called by hooks.
void pass_sync_point() noexcept;

}  // namespace quire::testing
