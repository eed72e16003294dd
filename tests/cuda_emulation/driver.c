// libcuda.so.1 of the emulated device: memory that is mapped at reserved addresses, which the library asks
// the driver for. What has no memory cannot be read. 0 is CUDA_SUCCESS, 2 CUDA_ERROR_OUT_OF_MEMORY.
#define _DEFAULT_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned long long Address;
typedef unsigned long long Handle;
enum { kSuccess = 0, kOutOfMemory = 2 };
static const size_t kUnit = (size_t)2 << 20;

static void* pointer(Address address) {
  return (void*)(uintptr_t)address;
}

int cuMemGetAllocationGranularity(size_t* unit, const void* properties, int option);
int cuMemGetAllocationGranularity(size_t* unit, const void* properties, int option) {
  (void)properties;
  (void)option;
  *unit = kUnit;
  return kSuccess;
}

int cuMemAddressReserve(Address* address, size_t bytes, size_t alignment, Address wish,
                        unsigned long long flags);
int cuMemAddressReserve(Address* address, size_t bytes, size_t alignment, Address wish,
                        unsigned long long flags) {
  (void)wish;
  (void)flags;
  const size_t unit = alignment > kUnit ? alignment : kUnit;
  void* const all = mmap(NULL, bytes + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return kOutOfMemory;
  const uintptr_t begin = ((uintptr_t)all + unit - 1) / unit * unit;
  const uintptr_t end = begin + bytes;
  if (begin > (uintptr_t)all) munmap(all, begin - (uintptr_t)all);
  munmap((void*)end, (uintptr_t)all + bytes + unit - end);
  *address = begin;
  return kSuccess;
}

int cuMemAddressFree(Address address, size_t bytes);
int cuMemAddressFree(Address address, size_t bytes) {
  munmap(pointer(address), bytes);
  return kSuccess;
}

int cuMemCreate(Handle* handle, size_t bytes, const void* properties, unsigned long long flags);
int cuMemCreate(Handle* handle, size_t bytes, const void* properties, unsigned long long flags) {
  (void)properties;
  (void)flags;
  *handle = bytes;
  return kSuccess;
}

int cuMemRelease(Handle handle);
int cuMemRelease(Handle handle) {
  (void)handle;
  return kSuccess;
}

int cuMemMap(Address address, size_t bytes, size_t offset, Handle handle, unsigned long long flags);
int cuMemMap(Address address, size_t bytes, size_t offset, Handle handle, unsigned long long flags) {
  (void)offset;
  (void)handle;
  (void)flags;
  void* const made =
      mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (made == MAP_FAILED) return kOutOfMemory;
  memset(made, 0xff, bytes);  // NaN: nothing is there that nobody wrote
  return kSuccess;
}

int cuMemUnmap(Address address, size_t bytes);
int cuMemUnmap(Address address, size_t bytes) {
  mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return kSuccess;
}

int cuMemSetAccess(Address address, size_t bytes, const void* access, size_t count);
int cuMemSetAccess(Address address, size_t bytes, const void* access, size_t count) {
  (void)address;
  (void)bytes;
  (void)access;
  (void)count;
  return kSuccess;
}
