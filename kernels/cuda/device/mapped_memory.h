// Device memory that is mapped and unmapped at fixed addresses, with functions of the driver; the runtime has
// none for this.
#pragma once

#include <cstdint>
#include <cuda.h>
#include <map>
#include <mutex>
#include <unordered_map>

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Functions of the driver, loaded at run time; the library does not link it.
class MappingDriver {
 public:
  MappingDriver();
  MappingDriver(const MappingDriver&) = delete;
  MappingDriver& operator=(const MappingDriver&) = delete;
  ~MappingDriver();
  // Returns true if this card can map memory in units of kPageBytes.
  bool can_map(int32_t ordinal) const;

  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) unreserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;

 private:
  void* library_ = nullptr;
};

// Reserved address ranges of one card. Thread-safe.
class MappedMemory {
 public:
  bool can_map(int32_t ordinal) const { return driver_.can_map(ordinal); }
  CUresult reserve(size_t bytes, void** range);
  CUresult map(int32_t ordinal, void* range, size_t offset, size_t bytes);
  // Return the number of bytes unmapped.
  size_t unmap(void* range, size_t offset);
  size_t unreserve(void* range);

 private:
  struct Range {
    size_t bytes = 0;
    std::map<size_t, size_t> pieces;  // bytes by offset
  };
  CUresult place(int32_t ordinal, CUdeviceptr address, size_t bytes) const;
  void take_away(CUdeviceptr address, size_t bytes) const;

  const MappingDriver driver_;
  std::mutex mutex_;
  std::unordered_map<void*, Range> ranges_;  // guarded by mutex_
};

}  // namespace quire::kernels
