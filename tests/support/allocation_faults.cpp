#include "tests/support/allocation_faults.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace quire::testing {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::atomic<int64_t> live{0};
std::atomic<int64_t> failed{0};
std::atomic<bool> armed{false};
std::atomic<bool> for_ever{false};
std::atomic<int64_t> left_for_all{kNever};
thread_local int64_t left_here = kNever;
thread_local int32_t off = 0;

// Returns whether this allocation must fail: it is the armed one, or comes after it with for_ever.
bool hits(int64_t left_after) {
  return left_after == 0 || (left_after < 0 && for_ever.load(std::memory_order_relaxed));
}

bool must_fail() noexcept {
  if (!armed.load(std::memory_order_relaxed) || off > 0) return false;
  bool fails = left_here != kNever && hits(--left_here);
  if (left_for_all.load(std::memory_order_relaxed) != kNever) fails = hits(left_for_all.fetch_sub(1) - 1);
  if (fails) failed.fetch_add(1);
  return fails;
}

}  // namespace

AllocationFault::AllocationFault(int64_t nth, FaultSpan span, FaultScope scope) noexcept {
  failed = 0;
  for_ever = span == FaultSpan::for_ever;
  left_here = scope == FaultScope::this_thread ? nth : kNever;
  left_for_all = scope == FaultScope::all_threads ? nth : kNever;
  armed = true;
}

AllocationFault::~AllocationFault() {
  armed = false;
  left_here = kNever;
  left_for_all = kNever;
}

int64_t AllocationFault::num_failed() const noexcept {
  return failed;
}

AllocationFaultsOff::AllocationFaultsOff() noexcept {
  ++off;
}

AllocationFaultsOff::~AllocationFaultsOff() {
  --off;
}

int64_t num_live_allocations() noexcept {
  return live;
}

namespace {

// Implements all forms of operator new.
void* allocate(size_t size, size_t alignment) {
  if (!must_fail()) {
    const size_t wanted = size == 0 ? 1 : size;
    void* const memory =
        alignment <= alignof(std::max_align_t)
            ? std::malloc(wanted)
            : std::aligned_alloc(alignment, (wanted + alignment - 1) / alignment * alignment);
    if (memory != nullptr) {
      live.fetch_add(1, std::memory_order_relaxed);
      return memory;
    }
  }
  throw std::bad_alloc();
}

void give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

}  // namespace quire::testing

// The standard library defines the other forms in terms of these, but the sanitizers do not. Memory allocated
// here must be freed here, so all forms in use are defined.
void* operator new(size_t size) {
  return quire::testing::allocate(size, 1);
}
void* operator new[](size_t size) {
  return quire::testing::allocate(size, 1);
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return quire::testing::allocate(size, 1);
  } catch (...) {
    return nullptr;
  }
}
void* operator new(size_t size, std::align_val_t alignment) {
  return quire::testing::allocate(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return quire::testing::allocate(size, static_cast<size_t>(alignment));
  } catch (...) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  quire::testing::give_back(memory);
}
void operator delete[](void* memory) noexcept {
  quire::testing::give_back(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  quire::testing::give_back(memory);
}
void operator delete(void* memory, size_t) noexcept {
  quire::testing::give_back(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  quire::testing::give_back(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  quire::testing::give_back(memory);
}
