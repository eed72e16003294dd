#include "kernels/cpu/aligned_buffer.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <sys/mman.h>

namespace quire::kernels {

namespace {

// A weight is read end to end once a token: 4 KiB pages would cost a walk of the page table each.
void ask_for_huge_pages(void* memory, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kPage * kPage;
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

void* take_memory(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes == 0 || bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  void* memory = ::operator new (bytes, std::align_val_t{kMemoryAlignment}, std::nothrow);
  if (memory != nullptr && bytes >= 2 * kHugePage) ask_for_huge_pages(memory, bytes);
  return memory;
}

void give_memory(void* memory) {
  ::operator delete (memory, std::align_val_t{kMemoryAlignment});
}

AlignedBuffer::AlignedBuffer(MemoryMeter& meter, size_t bytes) : meter_(&meter), bytes_(bytes) {
  if (bytes == 0) return;
  if (!meter.take(bytes)) throw OutOfMemory(bytes);
  data_ = take_memory(bytes);
  if (data_ == nullptr) {
    meter.give_back(bytes);
    throw OutOfMemory(bytes);
  }
  std::memset(data_, 0, bytes);
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ == nullptr) return;
  meter_->give_back(bytes_);
  give_memory(data_);
}

}  // namespace quire::kernels
