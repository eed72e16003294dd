#include "kernels/cuda/device/device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/cuda/gemm/matrix_library.h"

namespace quire::kernels {

namespace {

// Returns true for errors after which the process cannot use the card any more.
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

StagingBuffer::~StagingBuffer() {
  if (stream_ != nullptr) {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  for (void* memory : pinned_) device_.unpin(memory);
  for (cudaEvent_t event : sent_)
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  device_.release(scratch_);
}

Status StagingBuffer::open() {
  const char* const what = "allocating pinned staging memory";
  Status status = device_.check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), what);
  for (size_t i = 0; i < pinned_.size() && status == Status::ok; ++i) {
    status = device_.pin(kChunkBytes, &pinned_[i], what);
    if (status == Status::ok)
      status = device_.check(cudaEventCreateWithFlags(&sent_[i], cudaEventDisableTiming), what);
  }
  return status;
}

Status StagingBuffer::reserve(size_t bytes) {
  if (bytes <= scratch_bytes_) return Status::ok;
  free_scratch();
  // Small sizes are rounded up to powers of two, since each growth makes the card wait for all its work.
  const size_t wanted = bytes < kRetainedScratchBytes ? std::bit_ceil(bytes) : bytes;
  void* memory = nullptr;
  const Status status = device_.allocate(wanted, &memory, "allocating staging memory");
  if (status != Status::ok) return status;
  scratch_ = static_cast<uint8_t*>(memory);
  scratch_bytes_ = wanted;
  return Status::ok;
}

void StagingBuffer::shrink() {
  if (scratch_bytes_ > kRetainedScratchBytes) free_scratch();
}

void StagingBuffer::free_scratch() {
  static_cast<void>(cudaStreamSynchronize(stream_));
  device_.release(scratch_);
  scratch_ = nullptr;
  scratch_bytes_ = 0;
}

Status StagingBuffer::send(uint8_t* target, const void* host, const UnreadBytes* unread, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kChunkBytes) {
    const size_t piece = std::min(bytes - at, kChunkBytes);
    const size_t slot = next_++ % pinned_.size();
    cudaError_t error = cudaEventSynchronize(sent_[slot]);
    if (error == cudaSuccess && host != nullptr) {
      std::memcpy(pinned_[slot], static_cast<const uint8_t*>(host) + at, piece);
    } else if (error == cudaSuccess && !unread->read(unread->owner, at, pinned_[slot], piece)) {
      return Device::fail(Status::unreadable, std::to_string(piece) + " bytes of a matrix could not be read");
    }
    if (error == cudaSuccess)
      error = cudaMemcpyAsync(target + at, pinned_[slot], piece, cudaMemcpyHostToDevice, stream_);
    if (error == cudaSuccess) error = cudaEventRecord(sent_[slot], stream_);
    if (error != cudaSuccess) return device_.check(error, "copying weights");
  }
  return Status::ok;
}

Status Device::enter() {
  if (!lost.load(std::memory_order_acquire)) return check(cudaSetDevice(ordinal), "selecting the device");
  const std::scoped_lock lock(loss_mutex);
  return fail(Status::device_lost, "the device was lost: " + loss);
}

Status Device::lose(const std::string& words) {
  const std::scoped_lock lock(loss_mutex);
  if (!lost.exchange(true, std::memory_order_acq_rel)) loss = words;
  return fail(Status::device_lost, words);
}

Status Device::check(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return Status::ok;
  static_cast<void>(cudaGetLastError());  // clears errors that are not sticky
  const std::string words = std::string(doing) + ": " + cudaGetErrorName(error) + " (" +
                            std::to_string(static_cast<int>(error)) + "), " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) return fail(Status::out_of_memory, words);
  return is_sticky(error) ? lose(words) : fail(Status::invalid_argument, words);
}

Status Device::refuse_memory(size_t bytes, const char* what) {
  size_t free_bytes = 0, total_bytes = 0;
  static_cast<void>(cudaMemGetInfo(&free_bytes, &total_bytes));
  return fail(Status::out_of_memory,
              std::string(what) + ": " + std::to_string(bytes) + " bytes of device memory needed, " +
                  std::to_string(meter->free_bytes(free_bytes)) + " free (cudaErrorMemoryAllocation)");
}

bool Device::keep(void* memory, size_t bytes) {
  const std::scoped_lock lock(buffers_mutex);
  try {
    buffers.emplace(memory, bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

size_t Device::forget(void* memory) {
  const std::scoped_lock lock(buffers_mutex);
  const auto buffer = buffers.find(memory);
  if (buffer == buffers.end()) return 0;
  const size_t bytes = buffer->second;
  buffers.erase(buffer);
  return bytes;
}

Status Device::allocate(size_t bytes, void** memory, const char* what) {
  *memory = nullptr;
  if (const Status s = enter(); s != Status::ok) return s;
  const uint64_t taken = taken_bytes(bytes);
  if (!meter->take(taken)) return refuse_memory(bytes, what);
  cudaError_t error = cudaMalloc(memory, std::max<size_t>(bytes, 256));
  if (error == cudaSuccess) {
    if (keep(*memory, taken)) return Status::ok;
    static_cast<void>(cudaFree(std::exchange(*memory, nullptr)));
    error = cudaErrorMemoryAllocation;
  }
  meter->give_back(taken);
  if (error != cudaErrorMemoryAllocation) return check(error, what);
  static_cast<void>(cudaGetLastError());
  return refuse_memory(bytes, what);
}

void Device::release(void* memory) {
  if (memory == nullptr) return;
  static_cast<void>(cudaSetDevice(ordinal));
  static_cast<void>(cudaFree(memory));
  meter->give_back(forget(memory));
}

Status Device::reserve(size_t bytes, void** range) {
  *range = nullptr;
  if (const Status s = enter(); s != Status::ok) return s;
  const CUresult result = mapped.reserve(bytes, range);
  return result == CUDA_SUCCESS ? Status(Status::ok) : refuse_memory(bytes, "reserving addresses");
}

Status Device::map(void* range, size_t offset, size_t bytes, const char* what) {
  if (const Status s = enter(); s != Status::ok) return s;
  if (!meter->take(bytes)) return refuse_memory(bytes, what);
  const CUresult result = mapped.map(ordinal, range, offset, bytes);
  if (result == CUDA_SUCCESS) return Status::ok;
  meter->give_back(bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return refuse_memory(bytes, what);
  return fail(Status::invalid_argument, std::string(what) + ": CUDA error " + std::to_string(result));
}

void Device::unmap(void* range, size_t offset) {
  static_cast<void>(cudaSetDevice(ordinal));
  meter->give_back(mapped.unmap(range, offset));
}

void Device::unreserve(void* range) {
  if (range == nullptr) return;
  static_cast<void>(cudaSetDevice(ordinal));
  meter->give_back(mapped.unreserve(range));
}

Status Device::pin(size_t bytes, void** memory, const char* what) {
  *memory = nullptr;
  const Status status = check(cudaHostAlloc(memory, std::max<size_t>(bytes, 16), cudaHostAllocDefault), what);
  if (status != Status::ok) return status;
  if (!keep(*memory, bytes)) {
    static_cast<void>(cudaFreeHost(std::exchange(*memory, nullptr)));
    return check(cudaErrorMemoryAllocation, what);
  }
  meter->pin(bytes);
  return Status::ok;
}

void Device::unpin(void* memory) {
  if (memory == nullptr) return;
  static_cast<void>(cudaFreeHost(memory));
  meter->unpin(forget(memory));
}

void trim(Device* device) {
  static_cast<void>(cudaSetDevice(device->ordinal));
  const std::scoped_lock lock(device->staging_mutex);
  device->idle_staging_buffers.clear();
}

namespace {

int32_t places_for(size_t bytes) {
  const size_t places =
      (bytes + StagingBuffer::kRetainedScratchBytes - 1) / StagingBuffer::kRetainedScratchBytes;
  return static_cast<int32_t>(std::clamp<size_t>(places, 1, StagingBuffer::kMost));
}

}  // namespace

StagingLease::StagingLease(Device& device, size_t bytes) : device_(device), places_(places_for(bytes)) {
  std::vector<std::unique_ptr<StagingBuffer>> displaced;  // freed after the lock
  {
    std::unique_lock lock(device.staging_mutex);
    device.staging_available.wait(lock, [&] { return device.num_staging_available >= places_; });
    device.num_staging_available -= places_;
    std::vector<std::unique_ptr<StagingBuffer>>& idle = device.idle_staging_buffers;
    if (!idle.empty()) {
      stage_ = std::move(idle.back());
      idle.pop_back();
    }
    while (idle.size() > static_cast<size_t>(device.num_staging_available)) {
      displaced.push_back(std::move(idle.back()));
      idle.pop_back();
    }
  }
  if (stage_ != nullptr) return;
  stage_ = std::make_unique<StagingBuffer>(device);
  status_ = stage_->open();
}

StagingLease::~StagingLease() {
  if (status_ == Status::ok) stage_->shrink();
  const std::scoped_lock lock(device_.staging_mutex);
  if (status_ == Status::ok) device_.idle_staging_buffers.push_back(std::move(stage_));
  device_.num_staging_available += places_;
  device_.staging_available.notify_all();
}

}  // namespace quire::kernels
