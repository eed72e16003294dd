// Pieces of device memory that weights lie in, and their way to host memory and back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/interface/status.h"

namespace quire::kernels {

struct Device;

// Copies of weights that come back to one card, one after the other. Any thread.
class WeightArrivals {
 public:
  WeightArrivals() = default;
  WeightArrivals(const WeightArrivals&) = delete;
  WeightArrivals& operator=(const WeightArrivals&) = delete;
  ~WeightArrivals();

  // Starts a copy and records `arrived` after it.
  cudaError_t bring(void* target, const void* pinned, size_t bytes, cudaEvent_t arrived);
  // Copies, once what is on its way has come.
  cudaError_t send_away(void* pinned, const void* source, size_t bytes);
  // Whether some copies may be under way; looks for it where `looks`.
  bool any(bool looks);

 private:
  cudaError_t open();

  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;  // guarded by mutex_; once it is there it stays
  std::atomic<bool> any_{false};
};

// A piece that the weights in it keep. Where the card maps memory its address stays while its bytes are away:
// recorded steps hold it.
class WeightMemory {
 public:
  explicit WeightMemory(Device& device) : device_(device) {}
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;
  ~WeightMemory();

  Status take(size_t bytes, const char* what);
  uint8_t* data() const { return static_cast<uint8_t*>(memory_); }

  // As copy_weight, park_weight and bring_weight of the table. Small pieces stay where they are.
  Status copy_to_host();
  uint64_t park();
  Status bring();
  // What is issued on the stream from now on finds its bytes.
  cudaError_t await(cudaStream_t stream) const;
  // Whether they are there by now.
  bool has_come() const;

 private:
  Device& device_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t mapped_bytes_ = 0;  // 0: an ordinary piece
  mutable std::mutex mutex_;
  bool is_there_ = true;           // guarded by mutex_
  void* host_ = nullptr;           // guarded by mutex_: pinned; once copied, kept
  cudaEvent_t arrived_ = nullptr;  // guarded by mutex_; there where the copy is
};

// The weights that the recorded steps of a context read. One thread at a time.
class RecordedWeights {
 public:
  void add(const std::shared_ptr<WeightMemory>& memory);
  // False too where some are gone for ever.
  bool have_come() const;
  void clear() { pieces_.clear(); }

 private:
  std::vector<std::weak_ptr<const WeightMemory>> pieces_;
};

}  // namespace quire::kernels
