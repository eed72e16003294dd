// Access to memory that several cards use at the same time: their own, a peer's, or pinned host memory.
#pragma once

#include <cstdint>
#include <cuda_runtime.h>

namespace quire::kernels {

// Returns the time in nanoseconds.
__device__ __forceinline__ uint64_t wait_time() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}
// Called after each poll that found nothing.
__device__ __forceinline__ void pause_between_polls() {}

// Store words that are read by load_word and load_words. A word of 64 bits is written and read as a whole.
__device__ __forceinline__ void store_word(uint64_t* place, uint64_t word) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(place), "l"(word) : "memory");
}
__device__ __forceinline__ void store_words(uint64_t* place, ulonglong2 words) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(place), "l"(words.x), "l"(words.y)
               : "memory");
}
__device__ __forceinline__ uint64_t load_word(const uint64_t* place) {
  uint64_t word;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
  return word;
}
__device__ __forceinline__ ulonglong2 load_words(const uint64_t* place) {
  uint64_t x, y;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(place) : "memory");
  return make_ulonglong2(x, y);
}

// Stores a flag. All that the block wrote before its last barrier is visible on all cards before the flag.
__device__ __forceinline__ void store_flag(uint64_t* flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}
__device__ __forceinline__ uint64_t load_flag(const uint64_t* flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

// Stores data that a flag publishes later.
template <typename Unit>
__device__ __forceinline__ void store_to_peer(Unit* place, Unit value) {
  *place = value;
}
// Loads data that a flag has published. Bypasses the L1 cache, which may hold an old line.
template <typename Unit>
__device__ __forceinline__ Unit load_from_peer(const Unit* place) {
  return __ldcg(place);
}

// Access to pinned host memory that the host and all cards use.
__device__ __forceinline__ uint32_t load_shared(const uint32_t* place) {
  return *static_cast<const volatile uint32_t*>(place);
}
__device__ __forceinline__ void store_shared(uint32_t* place, uint32_t value) {
  *static_cast<volatile uint32_t*>(place) = value;
}

}  // namespace quire::kernels
