#include "kernels/interface/host_memory.h"

#include <cstdint>
#include <limits>
#include <new>
#include <sys/mman.h>

namespace quire::kernels {
namespace {

constexpr size_t kLargeBytes = size_t{1} << 20;
// A weight is read end to end once a token: 4 KiB pages would cost a walk of the page table each.
constexpr size_t kHugeBytes = size_t{4} << 20;

// Of the whole pages within a piece. What the system makes of it is its own affair.
void advise(void* memory, size_t bytes, int advice) noexcept {
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kPage * kPage;
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, advice));
}

}  // namespace

void* take_host_memory(size_t bytes) noexcept {
  if (bytes == 0 || bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  void* memory = ::operator new (bytes, std::align_val_t{kHostAlignment}, std::nothrow);
  if (memory != nullptr && bytes >= kHugeBytes) advise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void give_host_memory(void* memory, size_t bytes) noexcept {
  if (memory != nullptr && bytes >= kLargeBytes) advise(memory, bytes, MADV_DONTNEED);
  ::operator delete (memory, std::align_val_t{kHostAlignment});
}

}  // namespace quire::kernels
