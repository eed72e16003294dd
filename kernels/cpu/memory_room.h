// How much memory this process can still take: of the machine, of its control groups, of its own limits.
#pragma once

#include <cstdint>

namespace quire::kernels {

inline constexpr uint64_t kNoMemoryLimit = UINT64_MAX;

// Where the system tells it.
struct MemorySources {
  const char* root = "";                     // before /proc and /sys; another one for tests
  uint64_t address_bytes = kNoMemoryLimit;   // RLIMIT_AS
  uint64_t writable_bytes = kNoMemoryLimit;  // RLIMIT_DATA
};

// Those of this process.
MemorySources memory_sources() noexcept;

// The least of
// - what the machine can give, with swap; file caches make way (proc(5), MemAvailable);
// - what each control group of the process, and each above it, leaves beside what it can take from file
// caches: memory.max
//   and memory.high of version 2, memory.limit_in_bytes of version 1;
// - what the limits of the process leave of its addresses and of what it may write to.
// Memory of which nothing was written yet is still free for the system: `taken_bytes` that this process has
// taken count whole. A file that is not there or says nothing leaves its term out. Allocates nothing itself.
uint64_t memory_room(const MemorySources& sources, uint64_t taken_bytes) noexcept;

}  // namespace quire::kernels
