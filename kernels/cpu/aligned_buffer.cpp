#include "kernels/cpu/aligned_buffer.h"

#include <cstring>

#include "kernels/interface/host_memory.h"

namespace quire::kernels {

AlignedBuffer::AlignedBuffer(MemoryMeter& meter, size_t bytes) : meter_(&meter), bytes_(bytes) {
  if (bytes == 0) return;
  if (!meter.take(bytes)) throw OutOfMemory(bytes);
  data_ = take_host_memory(bytes);
  if (data_ == nullptr) {
    meter.give_back(bytes);
    throw OutOfMemory(bytes);
  }
  std::memset(data_, 0, bytes);
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ == nullptr) return;
  meter_->give_back(bytes_);
  give_host_memory(data_, bytes_);
}

}  // namespace quire::kernels
