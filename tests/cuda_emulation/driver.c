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
// The beginning of CUmemAllocationProp.
struct Properties {
  int type, handle_types, location_type, card;
};
// A handle has the bytes below the bits of the card.
static const int kCardShift = 56;

// Bytes in use on each card. Memory that a process has not freed when it ends stays in use.
static _Atomic int64_t own_taken[kQuireMaxEmulatedCards];
static _Atomic(int64_t)* taken(int card) {
  static _Atomic(_Atomic(int64_t)*) shared;
  _Atomic(int64_t)* found = atomic_load(&shared);
  if (found != NULL) return found + card;
  found = own_taken;
  const char* const name = getenv("QUIRE_EMULATED_CARD");
  const int file = name == NULL ? -1 : open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0 && ftruncate(file, sizeof own_taken) == 0) {
    void* const map = mmap(NULL, sizeof own_taken, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) found = map;
  }
  if (file >= 0) close(file);
  atomic_store(&shared, found);
  return found + card;
}

int quire_emulated_cards(void) {
  const char* const number = getenv("QUIRE_EMULATED_CARDS");
  const int cards = number == NULL ? 1 : atoi(number);
  return cards < 1 ? 1 : cards > kQuireMaxEmulatedCards ? kQuireMaxEmulatedCards : cards;
}

size_t quire_emulated_total(int card) {
  const char* megabytes = getenv("QUIRE_EMULATED_CARD_MIB");
  if (megabytes == NULL) return (size_t)8 << 30;
  for (const char* next = strchr(megabytes, ','); card > 0 && next != NULL; --card) {
    megabytes = next + 1;
    next = strchr(megabytes, ',');
  }
  return (size_t)atoll(megabytes) << 20;
}

size_t quire_emulated_free(int card) {
  return quire_emulated_total(card) - (size_t)atomic_load(taken(card));
}

int quire_emulated_take(int card, size_t bytes) {
  const int64_t total = (int64_t)quire_emulated_total(card);
  int64_t now = atomic_load(taken(card));
  do {
    if (bytes > (size_t)total || now + (int64_t)bytes > total) return 0;
  } while (!atomic_compare_exchange_weak(taken(card), &now, now + (int64_t)bytes));
  return 1;
}

void quire_emulated_give(int card, size_t bytes) {
  atomic_fetch_sub(taken(card), (int64_t)bytes);
}

// Cards of the mapped addresses, in any order; guarded by mappings_busy.
enum { kMaxMappings = 1 << 16 };
static struct {
  Address address;
  int card;
} mappings[kMaxMappings];
static size_t num_mappings;
static atomic_flag mappings_busy = ATOMIC_FLAG_INIT;

// Returns 0 if there is no room for it.
static int add_mapping(Address address, int card) {
  while (atomic_flag_test_and_set(&mappings_busy)) {
  }
  const int has_room = num_mappings < kMaxMappings;
  if (has_room) {
    mappings[num_mappings].address = address;
    mappings[num_mappings++].card = card;
  }
  atomic_flag_clear(&mappings_busy);
  return has_room;
}

// Returns the card of a mapping that it removes.
static int remove_mapping(Address address) {
  while (atomic_flag_test_and_set(&mappings_busy)) {
  }
  size_t i = 0;
  while (mappings[i].address != address) ++i;
  const int card = mappings[i].card;
  mappings[i] = mappings[--num_mappings];
  atomic_flag_clear(&mappings_busy);
  return card;
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
  (void)flags;
  const int card = ((const struct Properties*)properties)->card;
  *handle = bytes | (Handle)card << kCardShift;
  return quire_emulated_take(card, bytes) ? kSuccess : kOutOfMemory;
}

int cuMemRelease(Handle handle);
int cuMemRelease(Handle handle) {
  (void)handle;
  return kSuccess;
}

int cuMemMap(Address address, size_t bytes, size_t offset, Handle handle, unsigned long long flags);
int cuMemMap(Address address, size_t bytes, size_t offset, Handle handle, unsigned long long flags) {
  (void)offset;
  (void)flags;
  void* const made =
      mmap(pointer(address), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (made == MAP_FAILED) return kOutOfMemory;
  memset(made, 0xff, bytes);  // NaN, so that reads of unwritten memory are noticed
  return add_mapping(address, (int)(handle >> kCardShift)) ? kSuccess : kOutOfMemory;
}

int cuMemUnmap(Address address, size_t bytes);
int cuMemUnmap(Address address, size_t bytes) {
  quire_emulated_give(remove_mapping(address), bytes);
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
