// Memory that this process can still allocate, given the machine, its control groups (cgroups), and its own
// limits.
#pragma once

#include <cstdint>

namespace quire::kernels {

inline constexpr uint64_t kNoMemoryLimit = UINT64_MAX;

// Sources of the limits.
struct MemorySources {
  const char* root = "";                     // prefix of /proc and /sys; tests set another one
  uint64_t address_bytes = kNoMemoryLimit;   // RLIMIT_AS
  uint64_t writable_bytes = kNoMemoryLimit;  // RLIMIT_DATA
};

// Returns the sources of this process.
MemorySources memory_sources() noexcept;

// Returns the smallest of
// - the memory that the machine can provide, including swap; file caches are reclaimable (proc(5),
//   MemAvailable);
// - for each control group of the process and each of its parents, the limit minus the usage, plus
//   reclaimable file caches: memory.max and memory.high of version 2, memory.limit_in_bytes of version 1;
// - what the limits of the process leave of its address space and its writable memory.
// The system counts memory that was never written as free, so all `taken_bytes` that this process has
// allocated are subtracted. A file that is missing or has no number is ignored. Allocates nothing itself.
uint64_t available_memory(const MemorySources& sources, uint64_t taken_bytes) noexcept;

}  // namespace quire::kernels
