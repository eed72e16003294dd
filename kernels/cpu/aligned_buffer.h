// Host memory for weights, caches and scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <utility>

#include "kernels/interface/memory_meter.h"

namespace quire::kernels {

inline constexpr size_t kMemoryAlignment = 256;

// Memory aligned to 256 bytes, huge pages where it is large; nullptr where there is none. Content undefined.
void* take_memory(size_t bytes);
void give_memory(void* memory);

// The product of sizes; std::bad_alloc, as for memory that is not there, where it does not fit.
inline size_t product(std::initializer_list<size_t> factors) {
  size_t out = 1;
  for (const size_t factor : factors) {
    if (__builtin_mul_overflow(out, factor, &out)) throw std::bad_alloc();
  }
  return out;
}

// There is no memory, or no more within the device's limit.
struct OutOfMemory : std::bad_alloc {
  explicit OutOfMemory(size_t bytes) : needed_bytes(bytes) {}
  size_t needed_bytes;
};

// Owns such memory, counted by the device's meter. A failed allocation throws OutOfMemory, which the table's
// entries turn into a Status.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  AlignedBuffer(MemoryMeter& meter, size_t bytes);  // zeroed
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : meter_(other.meter_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(meter_, other.meter_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~AlignedBuffer();

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  MemoryMeter* meter_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace quire::kernels
