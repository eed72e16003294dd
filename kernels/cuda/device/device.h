// One card: its table, its failures, its memory, and the staging buffers through which weights are copied.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cuda_runtime.h>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/device/mapped_memory.h"
#include "kernels/cuda/device/pass_order.h"
#include "kernels/cuda/link/nccl_library.h"
#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/cuda/weights/weight_memory.h"
#include "kernels/interface/kernel_table.h"
#include "kernels/interface/memory_meter.h"

namespace quire::kernels {

class MatrixLibrary;
struct Device;

// The driver rounds allocations of more than half a page up to whole pages; smaller ones share pages.
constexpr uint64_t kPageBytes = uint64_t{2} << 20;
constexpr uint64_t taken_bytes(uint64_t bytes) {
  return bytes <= kPageBytes / 2 ? bytes : (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

// Staging buffer: a stream with two pinned buffers. The CPU fills one, from memory or from a file, while the
// other is copied to the device. Used by one thread at a time.
class StagingBuffer {
 public:
  // Size of each of the two pinned buffers: 64 MiB of pinned memory for kMost staging buffers.
  static constexpr size_t kChunkBytes = size_t{4} << 20;
  // Scratch that stays allocated after a lease. An output head needs hundreds of MiB, but only once.
  static constexpr size_t kRetainedScratchBytes = size_t{32} << 20;
  // Largest number of staging buffers in use at a time. Thus a load needs no more memory besides the weights
  // than is left free by default, unless a single matrix is larger.
  static constexpr int32_t kMost = 8;

  explicit StagingBuffer(Device& device) : device_(device) {}
  StagingBuffer(const StagingBuffer&) = delete;
  StagingBuffer& operator=(const StagingBuffer&) = delete;
  ~StagingBuffer();

  Status open();
  // Allocates device scratch for raw weights; earlier content is lost.
  Status reserve(size_t bytes);
  // Frees scratch beyond kRetainedScratchBytes.
  void shrink();
  // Queues a copy to device memory: of the bytes at `host`, or, if `host` is nullptr, of bytes still in a
  // file, which have been read when this returns.
  Status send(uint8_t* target, const void* host, const UnreadBytes* unread, size_t bytes);
  uint8_t* scratch() const { return scratch_; }
  cudaStream_t stream() const { return stream_; }

 private:
  void free_scratch();

  Device& device_;
  cudaStream_t stream_ = nullptr;
  std::array<void*, 2> pinned_{};
  std::array<cudaEvent_t, 2> sent_{};
  size_t next_ = 0;
  uint8_t* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

struct Device : CardLimits {
  KernelTable table;
  int32_t ordinal = 0;
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  bool deterministic = true;
  int32_t code_version = 0;  // compute capability for which the kernels are compiled, times ten
  // Card and kernels are of compute capability 9.0 or later: dependent launch, bulk copies (TMA).
  bool is_hopper = false;
  bool solves_lines = false;     // the card can run the kernels of state/lines.cu
  bool float8_products = false;  // the card has E4M3 products, and the kernels are compiled for it
  std::string name;
  std::string detail;
  std::unique_ptr<MatrixLibrary> library;  // null if cuBLASLt is not available
  NcclLibrary nccl;                        // opened when a link is first wanted

  std::atomic<bool> lost{false};
  std::unique_ptr<MemoryMeter> meter;
  std::mutex buffers_mutex;
  std::unordered_map<void*, size_t>
      buffers;  // device and pinned memory in use, with sizes; guarded by buffers_mutex
  MappedMemory mapped;
  WeightArrivals arrivals;
  PassOrder passes;
  std::mutex loss_mutex;
  std::string loss;  // the error that lost the device; guarded by loss_mutex

  std::mutex staging_mutex;
  std::condition_variable staging_available;
  std::vector<std::unique_ptr<StagingBuffer>>
      idle_staging_buffers;  // guarded by staging_mutex; at most num_staging_available
  int32_t num_staging_available = StagingBuffer::kMost;  // guarded by staging_mutex

  // Makes the card current for this thread. After the device is lost, returns the error that lost it.
  Status enter();
  static Status fail(Status::Code code, const std::string& words) {
    return failed(code, "%s", words.c_str());
  }
  // Returns a message with the CUDA error and the action; sticky errors lose the device.
  Status check(cudaError_t error, const char* doing);
  // Checks for errors of kernel launches and similar calls.
  Status check_launch(const char* doing) { return check(cudaGetLastError(), doing); }
  Status allocate(size_t bytes, void** memory, const char* what);
  void release(void* memory);
  // Implement the table entries of the same names.
  Status reserve(size_t bytes, void** range);
  Status map(void* range, size_t offset, size_t bytes, const char* what = "mapping device memory");
  void unmap(void* range, size_t offset);
  void unreserve(void* range);
  // Allocates pinned host memory for copies.
  Status pin(size_t bytes, void** memory, const char* what);
  void unpin(void* memory);

 private:
  Status lose(const std::string& words);
  Status refuse_memory(size_t bytes, const char* what);
  bool keep(void* memory, size_t bytes);  // false if host memory for the entry ran out
  size_t forget(void* memory);
};

// Lease of a staging buffer for the life of this object, to send `bytes` at a time. If that needs more than
// kRetainedScratchBytes of scratch, the lease counts as several buffers.
class StagingLease {
 public:
  StagingLease(Device& device, size_t bytes);
  ~StagingLease();
  StagingLease(const StagingLease&) = delete;
  StagingLease& operator=(const StagingLease&) = delete;
  Status status() const { return status_; }
  StagingBuffer& operator*() const { return *stage_; }
  StagingBuffer* operator->() const { return stage_.get(); }

 private:
  Device& device_;
  const int32_t places_;
  std::unique_ptr<StagingBuffer> stage_;
  Status status_ = Status::ok;
};

// Columns that share their row order; multiplied by one launch.
struct WeightGroup {
  Matrix matrix;
  std::vector<int32_t> row_order;  // stored row -> input feature; empty: in order
  const int32_t* device_row_order = nullptr;
  const int32_t* device_row_place = nullptr;  // input feature -> stored row
};

struct Weight {
  std::vector<WeightGroup> groups;
  const MatrixRecord* records = nullptr;            // device memory, one record per group
  std::vector<std::vector<int32_t>> column_orders;  // one order per part; empty: in order
  std::vector<int32_t> part_columns;
  int32_t num_rows = 0;
  int32_t num_columns = 0;
  // For an embedding table only.
  const void* table = nullptr;
  DType table_dtype = DType::f16;
  BlockType table_blocks = BlockType::none;  // otherwise rows are blocks of this type
  const uint16_t* table_grid = nullptr;      // of an IQ type

  std::shared_ptr<WeightMemory> memory;
  uint64_t bytes = 0;
};

// Table entries of weights (weight_prepare.cpp).
Status prepare_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, Weight** weights);
Status prepare_table(Device* device, const TableSource* source, Weight** weight);
void release_weight(Device* device, Weight* weight);
uint64_t weight_bytes(const Weight* weight);
Status copy_weight(Device* device, const Weight* weight);
uint64_t park_weight(Device* device, const Weight* weight);
Status bring_weight(Device* device, const Weight* weight);
void trim(Device* device);
Status plan_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, uint64_t* bytes);
Status plan_table(Device* device, const TableSource* source, uint64_t* bytes);
Status dequantize(Device* device, const Weight* weight, float* host);

}  // namespace quire::kernels
