// Access to memory that several cards use, with checks; replaces kernels/cuda/device/peer_memory.cuh. A
// thread that polls lets the kernels of other cards run.
#pragma once

#include "tests/cuda_emulation/emulation.h"

namespace quire::kernels {

inline uint64_t wait_time() {
  return emulation::wait_time();
}
inline void pause_between_polls() {
  emulation::wait_for_peers();
}

// Only one thread runs at a time, so plain accesses are atomic.
template <typename T>
void store_to_peer(T* place, T value) {
  emulation::check_peer(place);
  *place = value;
}
template <typename T>
T load_from_peer(const T* place) {
  emulation::check_peer(place);
  return *place;
}

inline void store_word(uint64_t* place, uint64_t word) {
  store_to_peer(place, word);
}
inline void store_words(uint64_t* place, ulonglong2 words) {
  store_to_peer(place, static_cast<uint64_t>(words.x));
  store_to_peer(place + 1, static_cast<uint64_t>(words.y));
}
inline uint64_t load_word(const uint64_t* place) {
  return load_from_peer(place);
}
inline ulonglong2 load_words(const uint64_t* place) {
  return make_ulonglong2(load_from_peer(place), load_from_peer(place + 1));
}

inline void store_flag(uint64_t* flag, uint64_t value) {
  store_to_peer(flag, value);
}
inline uint64_t load_flag(const uint64_t* flag) {
  return load_from_peer(flag);
}

inline uint32_t load_shared(const uint32_t* place) {
  return *static_cast<const volatile uint32_t*>(place);
}
inline void store_shared(uint32_t* place, uint32_t value) {
  *static_cast<volatile uint32_t*>(place) = value;
}

}  // namespace quire::kernels
