// Allocations that fail on demand (fault injection). Linking quire_allocation_faults replaces operator new of
// a test program; no allocation fails unless armed.
#pragma once

#include <cstdint>

namespace quire::testing {

enum class FaultScope : int32_t { this_thread, all_threads };
enum class FaultSpan : int32_t { once, for_ever };

// During its lifetime the nth allocation from now on fails (1 is the next), and with for_ever every later one
// too. At most one exists at a time.
class AllocationFault {
 public:
  AllocationFault(int64_t nth, FaultSpan span, FaultScope scope = FaultScope::this_thread) noexcept;
  ~AllocationFault();
  AllocationFault(const AllocationFault&) = delete;
  AllocationFault& operator=(const AllocationFault&) = delete;

  int64_t num_failed() const noexcept;
};

// During its lifetime allocations of this thread neither fail nor count; for code of the test that runs
// inside a call.
class AllocationFaultsOff {
 public:
  AllocationFaultsOff() noexcept;
  ~AllocationFaultsOff();
  AllocationFaultsOff(const AllocationFaultsOff&) = delete;
  AllocationFaultsOff& operator=(const AllocationFaultsOff&) = delete;
};

// Returns the number of allocated blocks of all threads that are not freed yet.
int64_t num_live_allocations() noexcept;

}  // namespace quire::testing
