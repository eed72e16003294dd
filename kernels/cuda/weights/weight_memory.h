// Device memory of weights, and its offload to host memory and back.
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

// Copies of offloaded weights back to one card, in order. Thread-safe.
class WeightArrivals {
 public:
  WeightArrivals() = default;
  WeightArrivals(const WeightArrivals&) = delete;
  WeightArrivals& operator=(const WeightArrivals&) = delete;
  ~WeightArrivals();

  // Starts a copy and records `arrived` after it.
  cudaError_t bring(void* target, const void* pinned, size_t bytes, cudaEvent_t arrived);
  // Copies to the host, after all copies in flight.
  cudaError_t copy_to_host_after_arrivals(void* pinned, const void* source, size_t bytes);
  // Returns true if copies may be in flight; checks the stream if `looks` is set.
  bool any(bool looks);

 private:
  cudaError_t open();

  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;  // guarded by mutex_; never destroyed once created
  std::atomic<bool> any_{false};
};

// Memory block shared by the weights in it. On cards that can map memory its address stays reserved while it
// is offloaded, because recorded steps contain the address.
class WeightMemory {
 public:
  explicit WeightMemory(Device& device) : device_(device) {}
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;
  ~WeightMemory();

  Status take(size_t bytes, const char* what);
  uint8_t* data() const { return static_cast<uint8_t*>(memory_); }

  // Implement copy_weight, park_weight and bring_weight of the table. Small blocks are never offloaded.
  Status copy_to_host();
  uint64_t park();
  Status bring();
  // Makes work issued on the stream from now on wait until the data is on the device.
  cudaError_t await(cudaStream_t stream) const;
  // Returns true if the data is on the device now.
  bool has_come() const;

 private:
  Device& device_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t mapped_bytes_ = 0;  // 0: allocated without mapping
  mutable std::mutex mutex_;
  bool is_there_ = true;           // guarded by mutex_
  void* host_ = nullptr;           // guarded by mutex_: pinned; never freed once copied
  cudaEvent_t arrived_ = nullptr;  // guarded by mutex_; exists if the host copy exists
};

// Weights that the recorded steps of a context read. Used by one thread at a time.
class RecordedWeights {
 public:
  void add(const std::shared_ptr<WeightMemory>& memory);
  // Returns false also if some weights have been released.
  bool have_come() const;
  void clear() { pieces_.clear(); }

 private:
  std::vector<std::weak_ptr<const WeightMemory>> pieces_;
};

}  // namespace quire::kernels
