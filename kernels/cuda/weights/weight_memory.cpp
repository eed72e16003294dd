#include "kernels/cuda/weights/weight_memory.h"

#include <algorithm>

#include "kernels/cuda/device/device.h"

namespace quire::kernels {

WeightArrivals::~WeightArrivals() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

cudaError_t WeightArrivals::open() {
  if (stream_ != nullptr) return cudaSuccess;
  return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
}

cudaError_t WeightArrivals::bring(void* target, const void* pinned, size_t bytes, cudaEvent_t arrived) {
  const std::scoped_lock lock(mutex_);
  if (const cudaError_t error = open(); error != cudaSuccess) return error;
  any_.store(true, std::memory_order_release);
  const cudaError_t error = cudaMemcpyAsync(target, pinned, bytes, cudaMemcpyHostToDevice, stream_);
  return error == cudaSuccess ? cudaEventRecord(arrived, stream_) : error;
}

cudaError_t WeightArrivals::copy_to_host_after_arrivals(void* pinned, const void* source, size_t bytes) {
  cudaStream_t stream = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (const cudaError_t error = open(); error != cudaSuccess) return error;
    const cudaError_t error = cudaMemcpyAsync(pinned, source, bytes, cudaMemcpyDeviceToHost, stream_);
    if (error != cudaSuccess) return error;
    stream = stream_;
  }
  return cudaStreamSynchronize(stream);
}

bool WeightArrivals::any(bool looks) {
  if (!any_.load(std::memory_order_acquire)) return false;
  if (!looks) return true;
  const std::scoped_lock lock(mutex_);
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  if (state == cudaSuccess) any_.store(false, std::memory_order_release);
  return state != cudaSuccess;
}

WeightMemory::~WeightMemory() {
  if (mapped_bytes_ == 0) {
    device_.release(memory_);
    return;
  }
  static_cast<void>(cudaSetDevice(device_.ordinal));
  // Unlike cudaFree, unmapping waits for no work. Wait only for the copy: a wait for the whole card would end
  // the recording of another context's step.
  if (arrived_ != nullptr) {
    static_cast<void>(cudaEventSynchronize(arrived_));
    static_cast<void>(cudaEventDestroy(arrived_));
  }
  device_.unreserve(memory_);
  device_.unpin(host_);
}

Status WeightMemory::take(size_t bytes, const char* what) {
  bytes_ = bytes;
  const size_t mapped = taken_bytes(bytes);
  const bool is_small = mapped == 0 || mapped % kPageBytes != 0;
  if (device_.table.map_unit == 0 || is_small) return device_.allocate(bytes, &memory_, what);
  if (const Status s = device_.reserve(mapped, &memory_); s != Status::ok) return s;
  mapped_bytes_ = mapped;
  return device_.map(memory_, 0, mapped, what);
}

// Weights never change, so an earlier copy is still valid. The copy has the size of the device memory that
// park frees, so that one number describes both.
Status WeightMemory::copy_to_host() {
  if (mapped_bytes_ == 0) return Status::ok;
  if (const Status s = device_.enter(); s != Status::ok) return s;
  const std::scoped_lock lock(mutex_);
  if (host_ != nullptr) return Status::ok;
  const char* const what = "copying weights to host memory";
  if (arrived_ == nullptr) {
    const cudaError_t error = cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming);
    if (const Status s = device_.check(error, what); s != Status::ok) return s;
  }
  void* host = nullptr;
  if (const Status s = device_.pin(mapped_bytes_, &host, what); s != Status::ok) return s;
  const cudaError_t error = device_.arrivals.copy_to_host_after_arrivals(host, memory_, bytes_);
  if (error == cudaSuccess) {
    host_ = host;
  } else {
    device_.unpin(host);
  }
  return device_.check(error, what);
}

// A failed wait means that the device is lost.
uint64_t WeightMemory::park() {
  const std::scoped_lock lock(mutex_);
  if (host_ == nullptr || !is_there_) return 0;
  static_cast<void>(cudaSetDevice(device_.ordinal));
  static_cast<void>(cudaEventSynchronize(arrived_));
  device_.unmap(memory_, 0);
  is_there_ = false;
  return mapped_bytes_;
}

Status WeightMemory::bring() {
  if (mapped_bytes_ == 0) return Status::ok;
  if (const Status s = device_.enter(); s != Status::ok) return s;
  const std::scoped_lock lock(mutex_);
  if (is_there_) return Status::ok;
  const char* const what = "copying weights back to the device";
  if (const Status s = device_.map(memory_, 0, mapped_bytes_, what); s != Status::ok) return s;
  const cudaError_t error = device_.arrivals.bring(memory_, host_, bytes_, arrived_);
  is_there_ = error == cudaSuccess;
  if (!is_there_) device_.unmap(memory_, 0);
  return device_.check(error, what);
}

cudaError_t WeightMemory::await(cudaStream_t stream) const {
  const std::scoped_lock lock(mutex_);
  return arrived_ == nullptr ? cudaSuccess : cudaStreamWaitEvent(stream, arrived_, 0);
}

bool WeightMemory::has_come() const {
  const std::scoped_lock lock(mutex_);
  if (!is_there_ || arrived_ == nullptr) return is_there_;
  const cudaError_t state = cudaEventQuery(arrived_);
  if (state == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  return state == cudaSuccess;
}

void RecordedWeights::add(const std::shared_ptr<WeightMemory>& memory) {
  const auto is_same = [&](const std::weak_ptr<const WeightMemory>& piece) {
    return !piece.owner_before(memory) && !memory.owner_before(piece);
  };
  if (std::none_of(pieces_.begin(), pieces_.end(), is_same)) pieces_.push_back(memory);
}

bool RecordedWeights::have_come() const {
  return std::all_of(pieces_.begin(), pieces_.end(), [](const std::weak_ptr<const WeightMemory>& piece) {
    const std::shared_ptr<const WeightMemory> memory = piece.lock();
    return memory != nullptr && memory->has_come();
  });
}

}  // namespace quire::kernels
