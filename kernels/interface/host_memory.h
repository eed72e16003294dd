// Host memory for weights, caches, scratch, and file contents that are copied to a device.
#pragma once

#include <cstddef>

namespace quire::kernels {

inline constexpr size_t kHostAlignment = 256;

// Returns memory aligned to 256 bytes, in huge pages if it is large; nullptr if there is none. The content is
// undefined. May be called on any thread.
void* take_host_memory(size_t bytes) noexcept;
// Frees memory. `bytes` is the size it was allocated with; a null pointer is a no-op.
//
// A block from kHostMappedBytes on is a mapping of its own, so that its pages return to the system at once. A
// heap would keep them in its arenas: up to 0.8 GB of an unloaded model of 1.2 GB stayed allocated, and the
// peak was 2.2 GB while the next one loaded. Arena memory also keeps its huge-page advice: small blocks
// allocated there later took 2 MiB each, 45 MB after 24 models had been loaded and unloaded. A mapping is
// rounded up to pages, at most 12 % of the smallest one; the system joins neighbouring mappings.
void give_host_memory(void* memory, size_t bytes) noexcept;
inline constexpr size_t kHostMappedBytes = size_t{32} << 10;

// Reserves addresses without memory, to be mapped and unmapped in pieces; nullptr if there are none. All
// sizes are multiples of kHostMapUnit. Newly mapped memory is zero.
inline constexpr size_t kHostMapUnit = size_t{64} << 10;  // a multiple of every page size
void* reserve_host_range(size_t bytes) noexcept;
bool map_host_range(void* address, size_t bytes) noexcept;
void unmap_host_range(void* address, size_t bytes) noexcept;
void unreserve_host_range(void* range, size_t bytes) noexcept;

struct HostMemoryDeleter {
  size_t bytes = 0;
  void operator()(void* memory) const noexcept { give_host_memory(memory, bytes); }
};

}  // namespace quire::kernels
