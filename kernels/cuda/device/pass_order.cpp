#include "kernels/cuda/device/pass_order.h"

namespace quire::kernels {

cudaError_t PassOrder::follow(cudaStream_t stream, const void* group) {
  const std::lock_guard lock(mutex_);
  if (last_ == nullptr || last_ == stream || (group != nullptr && group == group_)) return cudaSuccess;
  return cudaStreamWaitEvent(stream, issued_, 0);
}

cudaError_t PassOrder::mark(cudaStream_t stream, const void* group, cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  const cudaError_t error = cudaEventRecord(event, stream);
  if (error != cudaSuccess) return error;
  last_ = stream;
  group_ = group;
  issued_ = event;
  return cudaSuccess;
}

void PassOrder::forget(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (last_ != stream) return;
  last_ = nullptr;
  group_ = nullptr;
  issued_ = nullptr;
}

}  // namespace quire::kernels
