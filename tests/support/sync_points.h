// Points at which the threads of a schedule may switch: each entry into the C interface and, in builds
// without sanitizers (which intercept these functions themselves), each lock and unlock in the process. A
// seed determines what happens at a point: mostly nothing. At a few points each thread waits until the others
// have passed some points of their own, or cannot continue.
#pragma once

#include <cstdint>

namespace quire::testing {

// Schedule of two threads; at most one exists at a time. Other threads pass points too and are sometimes
// delayed.
class Schedule {
 public:
  explicit Schedule(uint64_t seed) noexcept;
  ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  // Makes the calling thread one of the two (0 or 1) until it leaves.
  void enter(int32_t which) noexcept;
  void leave() noexcept;
  // Returns a hash of the order in which the two passed their points. Called after both have left.
  static uint64_t order() noexcept;
};

// Called by hooks.
void pass_sync_point() noexcept;

}  // namespace quire::testing
