#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"

namespace quire::kernels::cpu_entries {
namespace {

// Rows of activations that are held as integers at a time. 128 rows of 2048 columns are 0.6 MB: they stay in
// a core's second-level cache while all panels are read.
constexpr size_t kQuantRows = 128;
// Padding of groups to whole blocks can turn one row into 32: a single row always fits.
constexpr size_t kWorstPadding = kBlockRows;
// Segments per thread that are computed at a time when a long sequence is split.
constexpr size_t kSplitSlotsPerThread = 2;
constexpr size_t kTileRows = kAttentionRows;

size_t round_up_to(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Bytes of the buffers of a context, in the order in which they are allocated.
struct ContextSizes {
  size_t quant_capacity = 0;
  size_t quant_codes = 0;
  size_t quant_scales = 0;
  size_t quant_sums = 0;
  size_t experts = 0;
  size_t attention = 0;
  size_t batch = 0;
  size_t total() const { return quant_codes + quant_scales + quant_sums + experts + attention + batch; }
};

// Floats of the scratch memory of attention.
struct AttentionSizes {
  size_t matrix = 0;
  size_t state = 0;
  size_t threads = 0;
  size_t slots = 0;
  size_t total() const {
    const size_t piece = 3 * matrix + kTileRows * kTileRows + 2 * state;
    return threads * piece + (slots + 1) * state;
  }
};

AttentionSizes attention_sizes(const ContextLimits& limits, int32_t num_threads) {
  AttentionSizes sizes;
  sizes.matrix = kTileRows * round_up_to(static_cast<size_t>(limits.head_dim), 16);
  sizes.state = sizes.matrix + 2 * kTileRows;
  sizes.threads = static_cast<size_t>(num_threads);
  sizes.slots = kSplitSlotsPerThread * sizes.threads;
  return sizes;
}

size_t batch_ints(const ContextLimits& limits) {
  const auto tokens = static_cast<size_t>(limits.max_tokens);
  const auto sequences = static_cast<size_t>(limits.max_sequences);
  const size_t pages = product({static_cast<size_t>(limits.num_page_tables), sequences,
                                static_cast<size_t>(limits.max_pages_per_sequence)});
  return 3 * tokens + 5 * sequences + 1 + pages + static_cast<size_t>(limits.max_logit_rows);
}

ContextSizes context_sizes(const ContextLimits& limits, int32_t num_threads) {
  const size_t columns = round_up_to(static_cast<size_t>(limits.max_columns), kBlockRows);
  const size_t rows =
      std::min(kQuantRows, static_cast<size_t>(std::max(limits.max_tokens, limits.max_logit_rows)));
  ContextSizes sizes;
  sizes.quant_capacity = std::max(rows, kWorstPadding) * columns;
  sizes.quant_codes = sizes.quant_capacity * 2;
  sizes.quant_scales = sizes.quant_capacity / kBlockRows * sizeof(float);
  sizes.quant_sums = 2 * (sizes.quant_capacity / kBlockRows) * sizeof(int32_t);
  sizes.experts = static_cast<size_t>(limits.expert_columns) * kExpertRows * sizeof(float);
  sizes.attention = attention_sizes(limits, num_threads).total() * sizeof(float);
  sizes.batch = product({batch_ints(limits), sizeof(int32_t)});
  return sizes;
}

void take_scratch(Context& context, const ContextSizes& sizes) {
  MemoryMeter& meter = context.device->meter;
  context.quant_capacity = sizes.quant_capacity;
  context.quant_codes = AlignedBuffer(meter, sizes.quant_codes);
  context.quant_scales = AlignedBuffer(meter, sizes.quant_scales);
  context.quant_sums = AlignedBuffer(meter, sizes.quant_sums);
  context.expert_rows = AlignedBuffer(meter, sizes.experts);
  context.attention_memory = AlignedBuffer(meter, sizes.attention);
  context.batch_memory = AlignedBuffer(meter, sizes.batch);
}

void assign_attention_scratch(Context& context, const AttentionSizes& sizes) {
  float* next = context.attention_memory.as<float>();
  const auto take = [&next](size_t floats) { return std::exchange(next, next + floats); };
  const auto take_state = [&] {
    return AttentionState{take(sizes.matrix), take(kAttentionRows), take(kAttentionRows)};
  };
  context.attention.resize(sizes.threads);
  for (AttentionScratch& scratch : context.attention) {
    scratch = {take(sizes.matrix),          take(sizes.matrix), take(sizes.matrix),
               take(kTileRows * kTileRows), take_state(),       take_state()};
  }
  for (size_t i = 0; i < sizes.slots; ++i) context.split_parts.push_back(take_state());
  context.split_total = take_state();
}

bool are_sound(const ContextLimits& limits) {
  return limits.max_tokens > 0 && limits.max_sequences > 0 && limits.max_logit_rows >= 0 &&
         limits.max_pages_per_sequence >= 0 && limits.num_page_tables > 0 && limits.max_columns > 0 &&
         limits.expert_columns >= 0 && limits.head_dim >= 0 && limits.head_dim <= kMaxHeadDim;
}

bool fits(const BatchView& batch, const ContextLimits& limits) {
  const auto within = [](int32_t value, int32_t limit) { return value >= 0 && value <= limit; };
  return within(batch.num_tokens, limits.max_tokens) && within(batch.num_sequences, limits.max_sequences) &&
         within(batch.num_logit_rows, limits.max_logit_rows) &&
         within(batch.page_table_stride, limits.max_pages_per_sequence) &&
         within(batch.num_page_tables, limits.num_page_tables);
}

}  // namespace

namespace {

Status refuse_limits(const ContextLimits& limits) {
  return failed(Status::invalid_argument,
                "create_context: %d tokens, %d sequences, %d columns, head dimension %d (at most %d)",
                limits.max_tokens, limits.max_sequences, limits.max_columns, limits.head_dim, kMaxHeadDim);
}

}  // namespace

Status plan_context(Device* device, const ContextLimits* limits, MemoryUse* use) {
  if (!are_sound(*limits)) return refuse_limits(*limits);
  return guarded(device, "context", [&] {
    *use = {};
    use->held_bytes = context_sizes(*limits, device->pool.num_threads()).total();
    return Status::ok;
  });
}

Status create_context(Device* device, const ContextLimits* limits, Context** context) {
  if (!are_sound(*limits)) return refuse_limits(*limits);
  return guarded(device, "context", [&] {
    auto made = std::make_unique<Context>();
    made->header.table = &device->table;
    made->device = device;
    made->limits = *limits;
    const int32_t num_threads = device->pool.num_threads();
    take_scratch(*made, context_sizes(*limits, num_threads));
    assign_attention_scratch(*made, attention_sizes(*limits, num_threads));
    made->state_lanes.reserve(static_cast<size_t>(limits->max_sequences));
    *context = made.release();
    return Status::ok;
  });
}

void release_context(Context* context) {
  delete context;
}

// Operations are complete when they return.
Status synchronize(Context*) {
  return Status::ok;
}

Status bind_batch(Context* context, const BatchView* host, BatchView* device) {
  if (!fits(*host, context->limits)) {
    return failed(Status::invalid_argument,
                  "bind_batch: %d tokens, %d sequences, %d rows, %d pages are beyond the context's limits",
                  host->num_tokens, host->num_sequences, host->num_logit_rows, host->page_table_stride);
  }
  *device = *host;
  int32_t* next = context->batch_memory.as<int32_t>();
  const auto place = [&next](const int32_t*& array, size_t count) {
    if (count != 0 && array != nullptr) std::memcpy(next, array, count * sizeof(int32_t));
    array = next;
    next += count;
  };
  const auto tokens = static_cast<size_t>(host->num_tokens);
  const auto sequences = static_cast<size_t>(host->num_sequences);
  place(device->token_ids, tokens);
  place(device->positions, tokens);
  place(device->sequence_of_token, tokens);
  place(device->sequence_starts, sequences + 1);
  place(device->kv_lengths, sequences);
  place(device->page_table, static_cast<size_t>(host->num_page_tables) * sequences *
                                static_cast<size_t>(host->page_table_stride));
  place(device->logit_rows, static_cast<size_t>(host->num_logit_rows));
  if (host->read_slots != nullptr)
    for (const int32_t** array : {&device->read_slots, &device->write_slots, &device->state_banks})
      place(*array, sequences);
  return Status::ok;
}

Status begin_step(Context*, const BatchView*, StepAction* action) {
  *action = StepAction::run;
  return Status::ok;
}

Status end_step(Context*, StepAction* action) {
  *action = StepAction::replayed;
  return Status::ok;
}

// Everything that was issued has been computed.
Status pause_step(Context*, int32_t* paused) {
  *paused = 1;
  return Status::ok;
}

Status resume_step(Context*) {
  return Status::ok;
}

Status read_rows(Context*, const float* device_rows, int32_t rows, int32_t columns, float* host) {
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  if (count != 0) std::memcpy(host, device_rows, count * sizeof(float));
  return Status::ok;
}

Status write_rows(Context*, const float* host, int32_t rows, int32_t columns, float* device_rows) {
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  if (count != 0) std::memcpy(device_rows, host, count * sizeof(float));
  return Status::ok;
}

Status receive_rows(Context* context, float* device_rows, Context*, const float* from_rows, int32_t rows,
                    int32_t columns) {
  return write_rows(context, from_rows, rows, columns, device_rows);
}

}  // namespace quire::kernels::cpu_entries
