#include "kernels/cpu/communicator.h"

#include <cstring>

#include "kernels/cpu/device.h"
#include "kernels/cpu/short_wait.h"
#include "kernels/cpu/table_entries.h"

namespace quire::kernels {

// Reads the number of barriers before it checks for an interruption. So an interruption that it misses
// changes that number after it was read, and ends the wait.
bool Communicator::meet() {
  const uint32_t seen = barriers_passed_.load(std::memory_order_acquire);
  if (interrupted_.load(std::memory_order_acquire)) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == contexts.size()) {
    arrived_.store(0, std::memory_order_relaxed);
    barriers_passed_.fetch_add(1, std::memory_order_acq_rel);
    barriers_passed_.notify_all();
    return true;
  }
  wait_until(barriers_passed_, [seen](uint32_t now) { return now != seen; });
  return !interrupted_.load(std::memory_order_acquire);
}

void Communicator::interrupt() {
  interrupted_.store(true, std::memory_order_release);
  barriers_passed_.fetch_add(1, std::memory_order_acq_rel);
  barriers_passed_.notify_all();
}

void Communicator::resume() {
  arrived_.store(0, std::memory_order_relaxed);
  interrupted_.store(false, std::memory_order_release);
}

namespace cpu_entries {
namespace {

// Returns the number of threads of a context: its share of the device's threads among the shards of this
// stage.
int32_t threads_of(const Communicator& communicator, const Context& context) {
  int32_t sharing = 0;
  for (const Context* other : communicator.contexts) sharing += other->device == context.device ? 1 : 0;
  return std::max(1, context.device->pool.num_threads() / sharing);
}

// Columns of one shard in rows first to last - 1.
struct Slice {
  const std::byte* rows;
  size_t stride_bytes;  // from one row to the next
  size_t first_byte;
  size_t row_bytes;

  void copy_to(std::byte* target, size_t target_row_bytes, int64_t first, int64_t last) const {
    for (auto row = static_cast<size_t>(first); row < static_cast<size_t>(last); ++row) {
      std::byte* to = target + row * target_row_bytes + first_byte;
      const std::byte* from = rows + row * stride_bytes;
      if (to != from) std::memcpy(to, from, row_bytes);
    }
  }
};

void copy_slices(Context* context, const AllGatherParams& params) {
  const ColumnSplit& columns = params.columns;
  const size_t element = dtype_bytes(params.dtype);
  const size_t total_bytes = static_cast<size_t>(columns.total()) * element;
  for (int32_t r = 0; r < columns.num_shards; ++r) {
    const auto first = static_cast<size_t>(columns.starts[r]) * element;
    const auto end = static_cast<size_t>(columns.starts[r + 1]) * element;
    if (first == end) continue;
    const GatherInput& input = context->communicator->inputs[static_cast<size_t>(r)];
    const size_t stride = input.stride != 0 ? static_cast<size_t>(input.stride) * element : end - first;
    const Slice slice = {static_cast<const std::byte*>(input.rows), stride, first, end - first};
    share_work(context, params.rows, static_cast<int64_t>(slice.row_bytes / sizeof(float)),
               [&](int32_t, int64_t from, int64_t to) {
                 slice.copy_to(static_cast<std::byte*>(params.output), total_bytes, from, to);
               });
  }
}

}  // namespace

int32_t reaches(Device*, Device*) {
  return 1;
}

Status connect_shards(Context* const* contexts, int32_t num_shards, Communicator** communicator) {
  return guarded(contexts[0]->device, "shards", [&] {
    auto made = std::make_unique<Communicator>(std::vector<Context*>(contexts, contexts + num_shards));
    std::vector<std::unique_ptr<ThreadPool>> pools;
    for (const Context* context : made->contexts)
      pools.push_back(std::make_unique<ThreadPool>(threads_of(*made, *context)));
    for (size_t r = 0; r < pools.size(); ++r) {
      contexts[r]->own_pool = std::move(pools[r]);
      contexts[r]->communicator = made.get();
    }
    *communicator = made.release();
    return Status::ok;
  });
}

void release_communicator(Communicator* communicator) {
  if (communicator == nullptr) return;
  for (Context* context : communicator->contexts) {
    context->communicator = nullptr;
    context->own_pool.reset();
  }
  delete communicator;
}

Status all_gather(Context* context, const AllGatherParams* params) {
  Communicator* communicator = context->communicator;
  const ColumnSplit& columns = params->columns;
  if (communicator == nullptr || !columns.is_split() ||
      static_cast<size_t>(columns.num_shards) != communicator->contexts.size()) {
    return failed(Status::invalid_argument,
                  "all_gather: the context is not connected to %d shards, or the columns are not split",
                  columns.num_shards);
  }
  if (params->place != nullptr)
    return failed(Status::unsupported, "all_gather: rows of f32 have no row order of a matrix");
  communicator->inputs[static_cast<size_t>(columns.rank)] = {params->input, params->input_stride};
  if (communicator->meet()) {
    if (params->output != nullptr) copy_slices(context, *params);
    if (communicator->meet()) return Status::ok;
  }
  return Status::interrupted;
}

void interrupt_shards(Communicator* communicator) {
  communicator->interrupt();
}

void resume_shards(Communicator* communicator) {
  communicator->resume();
}

}  // namespace cpu_entries
}  // namespace quire::kernels
