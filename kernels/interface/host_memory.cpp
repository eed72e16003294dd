#include "kernels/interface/host_memory.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace quire::kernels {
namespace {

// A weight is read from end to end for every token; with 4 KiB pages each page would cost a page-table walk.
constexpr size_t kHugeBytes = size_t{4} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

constexpr size_t rounded_up(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

enum class Access { none, full };

void* map(size_t bytes, Access access) noexcept {
  const int protection = access == Access::full ? PROT_READ | PROT_WRITE : PROT_NONE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (access == Access::full ? 0 : MAP_NORESERVE);
  void* memory = ::mmap(nullptr, bytes, protection, flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Maps memory that begins at a huge-page boundary, so that all of it except the end can be in huge pages. The
// system may still use small pages.
void* map_huge(size_t bytes, Access access) noexcept {
  const size_t kept = rounded_up(bytes, static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
  void* room = map(kept + kHugePage, access);
  if (room == nullptr) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(room);
  const size_t before = rounded_up(begin, kHugePage) - begin;
  auto* memory = static_cast<std::byte*>(room) + before;
  if (before > 0) static_cast<void>(::munmap(room, before));
  if (before < kHugePage) static_cast<void>(::munmap(memory + kept, kHugePage - before));
  static_cast<void>(::madvise(memory, kept, MADV_HUGEPAGE));
  return memory;
}

}  // namespace

void* take_host_memory(size_t bytes) noexcept {
  if (bytes == 0 || bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  if (bytes >= kHugeBytes) return map_huge(bytes, Access::full);
  if (bytes >= kHostMappedBytes) return map(bytes, Access::full);
  return ::operator new (bytes, std::align_val_t{kHostAlignment}, std::nothrow);
}

void give_host_memory(void* memory, size_t bytes) noexcept {
  if (memory != nullptr && bytes >= kHostMappedBytes) {
    static_cast<void>(::munmap(memory, bytes));
    return;
  }
  ::operator delete (memory, std::align_val_t{kHostAlignment});
}

void* reserve_host_range(size_t bytes) noexcept {
  if (bytes == 0 || bytes > std::numeric_limits<size_t>::max() / 2) return nullptr;
  return bytes >= kHugeBytes ? map_huge(bytes, Access::none) : map(bytes, Access::none);
}

bool map_host_range(void* address, size_t bytes) noexcept {
  return ::mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

// Unmaps memory. madvise alone would free the pages but not the memory that the system has committed.
void unmap_host_range(void* address, size_t bytes) noexcept {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(address, bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED) return;
  static_cast<void>(::madvise(address, bytes, MADV_DONTNEED));  // too many mappings for one more
}

void unreserve_host_range(void* range, size_t bytes) noexcept {
  static_cast<void>(::munmap(range, bytes));
}

}  // namespace quire::kernels
