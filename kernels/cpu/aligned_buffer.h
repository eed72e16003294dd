// Host memory that the device's meter counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <utility>

#include "kernels/interface/memory_meter.h"

namespace quire::kernels {

// Returns the product of sizes; throws std::bad_alloc, as if memory had run out, if it overflows.
inline size_t product(std::initializer_list<size_t> factors) {
  size_t out = 1;
  for (const size_t factor : factors) {
    if (__builtin_mul_overflow(out, factor, &out)) throw std::bad_alloc();
  }
  return out;
}

// Thrown if there is no memory, or none left within the device's limit.
struct OutOfMemory : std::bad_alloc {
  explicit OutOfMemory(size_t bytes) : needed_bytes(bytes) {}
  size_t needed_bytes;
};

// Owns host memory. A failed allocation throws OutOfMemory, which the table's entries turn into a Status.
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
