// Allocations that fail on demand. A test program that links quire_allocation_faults has its operator new
// replaced; nothing fails unless armed.
#pragma once

#include <cstdint>

namespace quire::testing {

enum class FaultScope : int32_t { this_thread, all_threads };
enum class FaultSpan : int32_t { once, for_ever };

// While it lives, the nth allocation from now on fails (1 is the next), and with for_ever every later one.
// One at a time.
class AllocationFault {
 public:
  AllocationFault(int64_t nth, FaultSpan span, FaultScope scope = FaultScope::this_thread) noexcept;
  ~AllocationFault();
  AllocationFault(const AllocationFault&) = delete;
  AllocationFault& operator=(const AllocationFault&) = delete;

  int64_t num_failed() const noexcept;
};

// While it lives, allocations of this thread neither fail nor count: for the test's own code inside a call.
class AllocationFaultsOff {
 public:
  AllocationFaultsOff() noexcept;
  ~AllocationFaultsOff();
  AllocationFaultsOff(const AllocationFaultsOff&) = delete;
  AllocationFaultsOff& operator=(const AllocationFaultsOff&) = delete;
};

// Blocks of all threads that are allocated and not yet given back.
int64_t num_live_allocations() noexcept;

}  // namespace quire::testing
