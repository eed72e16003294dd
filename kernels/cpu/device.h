// The backend's objects: the device with its threads, a context with its scratch memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/isa/isa_kernels.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Reserved addresses, and the pieces that have memory: bytes by offset.
struct MappedRange {
  size_t bytes = 0;
  std::map<size_t, size_t> pieces;
};

// The only CPU device of a runtime. Thread-safe.
struct Device {
  Device(const IsaKernels& kernels, const KernelTable& table_of_isa, int32_t num_threads,
         uint64_t memory_limit)
      : pool(num_threads), isa(kernels), table(table_of_isa), meter(memory_limit) {}

  ThreadPool pool;  // first member: the largest alignment
  const IsaKernels& isa;
  const KernelTable& table;
  MemoryMeter meter;
  std::mutex buffers_mutex;
  std::unordered_map<void*, size_t> buffers;  // memory from `allocate`, with sizes; guarded by buffers_mutex
  std::unordered_map<void*, MappedRange> ranges;  // addresses from `reserve`; guarded by buffers_mutex
};

// Scratch of attention for one thread, including its part of a split sequence.
struct AttentionScratch {
  float* query = nullptr;
  float* keys = nullptr;
  float* values = nullptr;
  float* weights = nullptr;
  AttentionState part;
  AttentionState total;
};

// Rows of one expert that are gathered at a time.
inline constexpr int32_t kExpertRows = 64;

// One stream of work; used by one thread at a time. All memory of its operations is allocated when it is
// created.
struct Context {
  ContextHeader header;  // first: every context of every backend starts with it
  Device* device = nullptr;
  ContextLimits limits;

  // Activations as 16-bit integers: memory for quant_capacity gathered elements.
  size_t quant_capacity = 0;
  AlignedBuffer quant_codes;
  AlignedBuffer quant_scales;
  AlignedBuffer quant_sums;

  AlignedBuffer expert_rows;  // gathered rows of one expert and their products

  AlignedBuffer attention_memory;
  std::vector<AttentionScratch> attention;  // [threads]
  std::vector<AttentionState> split_parts;  // segments of one tile that are computed at a time
  AttentionState split_total;

  AlignedBuffer batch_memory;  // the arrays of the bound batch

  std::vector<StateLane> state_lanes;  // lanes of the operation that runs, up to max_sequences

  // With tensor parallelism: the communicator of the shards, and this context's share of the device's
  // threads.
  Communicator* communicator = nullptr;
  std::unique_ptr<ThreadPool> own_pool;

  ThreadPool& pool() { return own_pool ? *own_pool : device->pool; }
};

// Returns the memory that can still be allocated on the device: what is free, within its limit.
uint64_t free_memory(const Device& device);

// Runs a body that may run out of memory; nothing else throws in this backend.
template <typename Body>
Status guarded(Device* device, const char* what, Body body) {
  try {
    return body();
  } catch (const Status& failure) {
    return failure;
  } catch (const OutOfMemory& refusal) {
    return failed(Status::out_of_memory, "%s: %zu bytes needed, %llu free", what, refusal.needed_bytes,
                  static_cast<unsigned long long>(free_memory(*device)));
  } catch (const std::bad_alloc&) {
    return failed(Status::out_of_memory, "%s: out of host memory", what);
  } catch (...) {
    return failed(Status::out_of_memory, "%s: the system refused a resource", what);
  }
}

// Work of fewer multiply-adds (or loads of that many bytes) is done by the caller alone: distributing it
// costs one to two microseconds.
inline constexpr int64_t kSmallWork = 16384;

// Work of a piece: some tenths of a microsecond, so that claiming it costs little in comparison, and threads
// finish at about the same time.
inline constexpr int64_t kPieceWork = 32768;

inline int64_t units_of_piece(int64_t unit_work) {
  return unit_work < kPieceWork ? kPieceWork / std::max<int64_t>(unit_work, 1) : 1;
}

// Splits `count` units, each of `unit_work`, over the pool, or runs them all on the caller.
template <typename Work>
void share_work(Context* context, int64_t count, int64_t unit_work, const Work& work) {
  if (count == 0) return;
  if (count > 1 && count * unit_work >= kSmallWork) {
    return context->pool().share(count, units_of_piece(unit_work), work);
  }
  const DefaultFloatingPoint environment;
  work(0, 0, count);
}

}  // namespace quire::kernels
