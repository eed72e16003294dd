// Host memory for weights, caches, scratch, and what is read from files on its way to a device.
#pragma once

#include <cstddef>

namespace quire::kernels {

inline constexpr size_t kHostAlignment = 256;

// Aligned to 256 bytes, in huge pages where it is large; nullptr where there is none. Content undefined. Any
// thread.
void* take_host_memory(size_t bytes) noexcept;
// `bytes`: as it was taken; a null pointer is none. A large piece is a mapping of its own, so that its pages
// are the system's again at once. A heap would keep them for those of its arenas that they came from: up to
// 0.8 GB of a model of 1.2 GB that had gone, and a peak of 2.2 GB while the next was loaded. And what of an
// arena was advised to lie in huge pages stays so: small blocks that come there later took 2 MiB each, 45 MB
// after 24 models that came and went.
void give_host_memory(void* memory, size_t bytes) noexcept;

// Addresses without memory, in which pieces get some and lose it again; nullptr where there are none. All
// sizes are whole multiples of kHostMapUnit. What is mapped anew is zero.
inline constexpr size_t kHostMapUnit = size_t{64} << 10;  // of any page size
void* reserve_host_range(size_t bytes) noexcept;
bool map_host_range(void* address, size_t bytes) noexcept;
void unmap_host_range(void* address, size_t bytes) noexcept;
void unreserve_host_range(void* range, size_t bytes) noexcept;

struct HostMemoryDeleter {
  size_t bytes = 0;
  void operator()(void* memory) const noexcept { give_host_memory(memory, bytes); }
};

}  // namespace quire::kernels
