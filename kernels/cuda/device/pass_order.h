// The order of passes on a card: what a context issues begins when all that others issued before it is done.
// Two passes at once would keep each other from the card, and the short one would take as long as the other.
#pragma once

#include <cuda_runtime.h>
#include <mutex>

namespace quire::kernels {

class PassOrder {
 public:
  PassOrder() = default;
  PassOrder(const PassOrder&) = delete;
  PassOrder& operator=(const PassOrder&) = delete;

  // What comes on the stream waits for what the last of the others has issued. Not while the stream records.
  cudaError_t follow(cudaStream_t stream);
  // The last that has issued is this stream; `event` is its own.
  cudaError_t mark(cudaStream_t stream, cudaEvent_t event);
  // Before stream and event go.
  void forget(cudaStream_t stream);

 private:
  std::mutex mutex_;
  cudaStream_t last_ = nullptr;   // guarded by mutex_
  cudaEvent_t issued_ = nullptr;  // guarded by mutex_; of last_
};

}  // namespace quire::kernels
