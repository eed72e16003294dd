#include "kernels/cpu/aligned_buffer.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <sys/mman.h>

namespace quire::kernels {

void* take_memory(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  if (bytes == 0 || bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kMemoryAlignment;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  // A weight is read end to end once a token: 4 KiB pages would cost a walk of the page table each.
  if (memory != nullptr && alignment == kHugePage) (void)::madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

void give_memory(void* memory) {
  std::free(memory);
}

AlignedBuffer::AlignedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = take_memory(bytes);
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, bytes);
}

}  // namespace quire::kernels
