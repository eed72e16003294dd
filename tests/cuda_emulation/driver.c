// libcuda.so.1 of the emulated device: functions to map memory at reserved addresses, which the backend loads
// from the driver. Unmapped addresses cannot be read. 0 is CUDA_SUCCESS, 2 CUDA_ERROR_OUT_OF_MEMORY.
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda_emulation/card_memory.h"

typedef unsigned long long Address;
typedef unsigned long long Handle;
enum { kSuccess = 0, kOutOfMemory = 2 };
static const size_t kUnit = (size_t)2 << 20;

// Bytes in use on the card. Memory that a process has not freed when it ends stays in use.
static _Atomic int64_t own_taken;
static _Atomic(int64_t)* taken(void) {
  static _Atomic(_Atomic(int64_t)*) shared;
  _Atomic(int64_t)* found = atomic_load(&shared);
  if (found != NULL) return found;
  found = &own_taken;
  const char* const name = getenv("QUIRE_EMULATED_CARD");
  const int file = name == NULL ? -1 : open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0 && ftruncate(file, sizeof own_taken) == 0) {
    void* const map = mmap(NULL, sizeof own_taken, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) found = map;
  }
  if (file >= 0) close(file);
  atomic_store(&shared, found);
  return found;
}

size_t quire_emulated_total(void) {
  const char* const megabytes = getenv("QUIRE_EMULATED_CARD_MIB");
  return (megabytes == NULL ? (size_t)8 << 10 : (size_t)atoll(megabytes)) << 20;
}

size_t quire_emulated_free(void) {
  return quire_emulated_total() - (size_t)atomic_load(taken());
}

int quire_emulated_take(size_t bytes) {
  const int64_t total = (int64_t)quire_emulated_total();
  int64_t now = atomic_load(taken());
  do {
    if (bytes > (size_t)total || now + (int64_t)bytes > total) return 0;
  } while (!atomic_compare_exchange_weak(taken(), &now, now + (int64_t)bytes));
  return 1;
}

void quire_emulated_give(size_t bytes) {
  atomic_fetch_sub(taken(), (int64_t)bytes);
}

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
  return quire_emulated_take(bytes) ? kSuccess : kOutOfMemory;
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
  memset(made, 0xff, bytes);  // NaN, so that reads of unwritten memory are noticed
  return kSuccess;
}

int cuMemUnmap(Address address, size_t bytes);
int cuMemUnmap(Address address, size_t bytes) {
  quire_emulated_give(bytes);
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
