// Order of forward passes on a card: work of a context begins after all work that others issued before it.
// Two passes at the same time would slow each other down, and the short one would take as long as the long
// one.
#pragma once

#include <cuda_runtime.h>
#include <mutex>

namespace quire::kernels {

class PassOrder {
 public:
  PassOrder() = default;
  PassOrder(const PassOrder&) = delete;
  PassOrder& operator=(const PassOrder&) = delete;

  // Makes later work on the stream wait for the last work issued by other streams. Not while the stream is
  // capturing. Streams of one group (the shards of a stage; nullptr: none) compute at the same time, so they
  // do not wait for each other.
  cudaError_t follow(cudaStream_t stream, const void* group);
  // Records that this stream has issued work last; `event` is the stream's own.
  cudaError_t mark(cudaStream_t stream, const void* group, cudaEvent_t event);
  // Called before stream and event are destroyed.
  void forget(cudaStream_t stream);

 private:
  std::mutex mutex_;
  cudaStream_t last_ = nullptr;   // guarded by mutex_
  const void* group_ = nullptr;   // guarded by mutex_; of last_
  cudaEvent_t issued_ = nullptr;  // guarded by mutex_; event of last_
};

}  // namespace quire::kernels
