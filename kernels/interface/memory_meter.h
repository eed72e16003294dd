// Counts the memory of one device: the bytes in use, the number of allocations, and a limit. Backends
// allocate all their memory through one meter.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

#include "kernels/interface/types.h"

namespace quire::kernels {

// Thread-safe.
class MemoryMeter {
 public:
  // limit_bytes is the limit on device memory; 0 means no limit.
  explicit MemoryMeter(uint64_t limit_bytes = 0)
      : limit_(limit_bytes == 0 ? std::numeric_limits<uint64_t>::max() : limit_bytes) {}

  // Counts device memory before it is allocated. Returns false and counts nothing if the limit forbids it.
  bool take(uint64_t bytes) {
    uint64_t held = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - held) return false;
    } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
    num_taken_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void give_back(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  // Counts pinned host memory, which has no limit.
  void pin(uint64_t bytes) {
    pinned_.fetch_add(bytes, std::memory_order_relaxed);
    num_taken_.fetch_add(1, std::memory_order_relaxed);
  }
  void unpin(uint64_t bytes) { pinned_.fetch_sub(bytes, std::memory_order_relaxed); }

  MemoryUse use() const {
    return {num_taken_.load(std::memory_order_relaxed), held_.load(std::memory_order_relaxed),
            pinned_.load(std::memory_order_relaxed)};
  }
  // Returns how much may still be allocated if the device has `free_bytes` free.
  uint64_t free_bytes(uint64_t free_bytes) const {
    const uint64_t left = limit_ - held_.load(std::memory_order_relaxed);
    return free_bytes < left ? free_bytes : left;
  }

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> num_taken_{0};
  std::atomic<uint64_t> held_{0};
  std::atomic<uint64_t> pinned_{0};
};

}  // namespace quire::kernels
