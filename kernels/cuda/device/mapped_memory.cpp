#include "kernels/cuda/device/mapped_memory.h"

#include <dlfcn.h>
#include <new>

#include "kernels/cuda/device/device.h"

namespace quire::kernels {

namespace {

CUmemAllocationProp pieces_of(int32_t ordinal) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal}};
  return prop;
}

CUdeviceptr address_of(void* range, size_t offset) {
  return reinterpret_cast<CUdeviceptr>(range) + offset;
}

}  // namespace

MappingDriver::MappingDriver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
  const auto find = [this](auto& function, const char* name) {
    if (library_ != nullptr) function = reinterpret_cast<decltype(+function)>(dlsym(library_, name));
  };
  find(granularity, "cuMemGetAllocationGranularity");
  find(reserve, "cuMemAddressReserve");
  find(unreserve, "cuMemAddressFree");
  find(create, "cuMemCreate");
  find(release, "cuMemRelease");
  find(map, "cuMemMap");
  find(unmap, "cuMemUnmap");
  find(set_access, "cuMemSetAccess");
}

MappingDriver::~MappingDriver() {
  if (library_ != nullptr) dlclose(library_);
}

bool MappingDriver::can_map(int32_t ordinal) const {
  if (granularity == nullptr || reserve == nullptr || unreserve == nullptr || create == nullptr ||
      release == nullptr || map == nullptr || unmap == nullptr || set_access == nullptr)
    return false;
  const CUmemAllocationProp prop = pieces_of(ordinal);
  size_t unit = 0;
  return granularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS && unit > 0 &&
         kPageBytes % unit == 0;
}

CUresult MappedMemory::reserve(size_t bytes, void** range) {
  const std::scoped_lock lock(mutex_);
  CUdeviceptr address = 0;
  const CUresult result = driver_.reserve(&address, bytes, kPageBytes, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  void* const reserved = reinterpret_cast<void*>(address);
  try {
    ranges_[reserved].bytes = bytes;
  } catch (const std::bad_alloc&) {
    static_cast<void>(driver_.unreserve(address, bytes));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *range = reserved;
  return CUDA_SUCCESS;
}

CUresult MappedMemory::map(int32_t ordinal, void* range, size_t offset, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  std::map<size_t, size_t>& pieces = ranges_[range].pieces;
  try {
    pieces.emplace(offset, bytes);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = place(ordinal, address_of(range, offset), bytes);
  if (result != CUDA_SUCCESS) pieces.erase(offset);
  return result;
}

// Releases the handle at once: the mapping keeps the memory alive.
CUresult MappedMemory::place(int32_t ordinal, CUdeviceptr address, size_t bytes) const {
  const CUmemAllocationProp prop = pieces_of(ordinal);
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = driver_.create(&handle, bytes, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  result = driver_.map(address, bytes, 0, handle, 0);
  static_cast<void>(driver_.release(handle));
  if (result != CUDA_SUCCESS) return result;
  const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver_.set_access(address, bytes, &access, 1);
  if (result != CUDA_SUCCESS) take_away(address, bytes);
  return result;
}

void MappedMemory::take_away(CUdeviceptr address, size_t bytes) const {
  static_cast<void>(driver_.unmap(address, bytes));
}

size_t MappedMemory::unmap(void* range, size_t offset) {
  const std::scoped_lock lock(mutex_);
  auto& pieces = ranges_[range].pieces;
  const auto piece = pieces.find(offset);
  const size_t bytes = piece->second;
  take_away(address_of(range, offset), bytes);
  pieces.erase(piece);
  return bytes;
}

size_t MappedMemory::unreserve(void* range) {
  const std::scoped_lock lock(mutex_);
  const auto found = ranges_.find(range);
  size_t mapped = 0;
  for (const auto& [offset, bytes] : found->second.pieces) {
    take_away(address_of(range, offset), bytes);
    mapped += bytes;
  }
  static_cast<void>(driver_.unreserve(address_of(range, 0), found->second.bytes));
  ranges_.erase(found);
  return mapped;
}

}  // namespace quire::kernels
