#include "kernels/cuda/step/context.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/cuda/collective/communicator.h"
#include "kernels/cuda/gemm/matrix_library.h"
#include "kernels/cuda/link/link.h"
#include "kernels/cuda/plan/batch_checks.h"
#include "kernels/cuda/step/context_builder.h"
#include "kernels/interface/draw_limits.h"

namespace quire::kernels {
namespace {

constexpr int32_t kPageTokens = 256;  // unit of pages in ContextLimits
constexpr size_t kAttentionPartialBytes = size_t{256} << 20;
// Part of kAttentionPartialBytes for short prompt chunks, and the largest number of their tokens.
constexpr size_t kPiecePartialBytes = size_t{128} << 20;
constexpr int32_t kMaxPieceTokens = 64;
// Input of experts per round; more rows take several rounds.
constexpr size_t kExpertInputBytes = size_t{64} << 20;
constexpr size_t kExpertSlotsPerToken = 32;
constexpr int32_t kCounters = 1 << 16;
constexpr size_t kSharedPageInts = size_t{kMaxSharedPages} * sizeof(SharedPage) / sizeof(int32_t);
// Pinned memory for logits that are copied to the host. Sampling on the device needs no copy, and a job that
// computes scores can wait.
constexpr size_t kHostRowBytes = size_t{32} << 20;
constexpr int32_t kMaxRecordedTokens = 64;  // larger steps take so long that recording does not pay

size_t padded_dim(int32_t head_dim) {
  return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : 256;
}

// Returns the floats of attention's partial results, one per (head of a sequence, chunk). Few models reach
// the limit; beyond it attention does not split the keys.
size_t attention_partial_floats(const ContextLimits& limits) {
  const size_t chunks = static_cast<size_t>(limits.max_pages_per_sequence) * kPageTokens / kChunkTokens;
  const size_t of_token = static_cast<size_t>(limits.num_heads) * chunks * 5 / 4 *
                          static_cast<size_t>(padded_dim(limits.head_dim) + 2);
  const size_t of_singles = static_cast<size_t>(limits.max_sequences) * of_token;
  const size_t of_piece = static_cast<size_t>(std::min(limits.max_tokens, kMaxPieceTokens)) * of_token;
  const size_t floats = std::max(of_singles, std::min(of_piece, kPiecePartialBytes / sizeof(float)));
  return std::min(std::max<size_t>(floats, 1 << 20), kAttentionPartialBytes / sizeof(float));
}

size_t mask_words(int32_t vocab_size) {
  return (static_cast<size_t>(vocab_size) + 31) / 32;
}

// Takes what the gathers of a shard need.
void take_gather_memory(ContextBuilder& build, Context& c, const ContextLimits& l) {
  if (l.num_shards <= 1) return;
  GatherMemory& g = c.gathers;
  g.layout = inbox_layout(l.num_shards, l.gather_bytes);
  const auto bytes = static_cast<size_t>(g.layout.total_bytes);
  if (l.gathers_on_host != 0) {
    build.pin(g.inbox, bytes, "allocating pinned memory for the results of shards");
  } else {
    build.take(g.inbox, bytes, "allocating memory for the results of shards");
  }
  build.take(g.state, 1, "allocating memory for the progress of shards");
  build.pin(g.control, 1, "allocating pinned memory for the progress of shards");
}

void take_buffers(ContextBuilder& build, Context& c, const ContextLimits& l) {
  const auto tokens = static_cast<size_t>(l.max_tokens), sequences = static_cast<size_t>(l.max_sequences);
  const auto rows = static_cast<size_t>(l.max_logit_rows), vocabulary = static_cast<size_t>(l.vocab_size);
  const size_t tables = static_cast<size_t>(l.num_page_tables) * sequences;
  c.batch_ints = 3 * tokens + 7 * sequences + 1 + rows +
                 tables * static_cast<size_t>(l.max_pages_per_sequence) + kSharedPageInts + 64;
  build.take(c.batch, c.batch_ints, "allocating memory for batches");
  build.take(c.drawn, rows, "allocating memory for drawn tokens");
  for (int32_t*& slot : c.batch_slots) build.pin(slot, c.batch_ints, "allocating pinned memory for batches");
  c.partial_floats = kPartialFloats;
  build.take(c.partials, c.partial_floats, "allocating memory for partial sums");
  c.num_counters = kCounters;
  build.take(c.counters, static_cast<size_t>(kCounters) * 2, "allocating memory for counters");
  c.attention.partial_floats = attention_partial_floats(l);
  build.take(c.attention.partials, c.attention.partial_floats, "allocating memory for attention");
  c.attention.num_counters = kCounters;
  const size_t most_rows = (std::max(tokens, rows) + kMaxTileTokens - 1) / kMaxTileTokens * kMaxTileTokens;
  c.gathered_elements = most_rows * (static_cast<size_t>(l.max_columns) + kBlockRows);
  build.take(c.gathered, c.gathered_elements, "allocating memory for gathered activations");
  if (l.state_line_bytes > 0)
    build.take(c.solved_lines,
               static_cast<size_t>(max_solved_lines(l.max_tokens)) * static_cast<size_t>(l.state_line_bytes),
               "allocating memory for solved lines");
  if (l.expert_columns > 0) {
    const size_t rows_of_tokens = tokens * kExpertSlotsPerToken;
    c.expert_input_elements = std::min(rows_of_tokens * static_cast<size_t>(l.expert_columns + kBlockRows),
                                       kExpertInputBytes / sizeof(__half));
    build.take(c.expert_input, c.expert_input_elements, "allocating memory for rows of experts");
    build.take(c.expert_slots, size_t{2} * kMaxExpertSlots, "allocating memory for rows of experts");
  }
  if (c.device->library != nullptr && !c.device->deterministic) {
    build.take(c.slab, kSlabBytes / sizeof(__half), "allocating memory for expanded weights");
    build.take(c.product, kProductBytes / sizeof(float), "allocating memory for products");
    uint8_t* workspace = nullptr;
    build.take(workspace, MatrixLibrary::kWorkspaceBytes, "allocating memory for cuBLASLt");
    c.library_workspace = workspace;
  }
  take_packed_memory(build, c, l.packed);
  take_gather_memory(build, c, l);
  c.transfer_floats = tokens * static_cast<size_t>(l.handed_columns);
  build.pin(c.transfer_rows, c.transfer_floats, "allocating pinned memory for rows");
  c.host_row_floats = std::min(rows * vocabulary, kHostRowBytes / sizeof(float)) + c.transfer_floats;
  build.pin(c.host_rows, c.host_row_floats, "allocating pinned memory for logits");
  for (DrawSlot& slot : c.draws) {
    build.pin(slot.rows, rows, "allocating pinned memory for sampling");
    build.pin(slot.edits, static_cast<size_t>(l.max_sample_edits), "allocating pinned memory for sampling");
    build.pin(slot.results, rows, "allocating pinned memory for sampling");
    const auto masks = static_cast<size_t>(max_draw_masks(l.max_logit_rows, l.max_sequences));
    build.pin(slot.masks, masks * mask_words(l.vocab_size), "allocating pinned memory for masks");
  }
  build.take(c.sample_scans, rows, "allocating memory for sampling");
  const size_t blocks = std::min<size_t>(rows, kSampleBlocks);
  build.take(c.sample_adjusted, blocks * (vocabulary + 3), "allocating memory for sampling");
  if (build.status() != Status::ok || build.counts()) return;
  c.attention.counters = c.counters + kCounters;
  build.check(cudaMemsetAsync(c.counters, 0, static_cast<size_t>(kCounters) * 2 * sizeof(uint32_t), c.stream),
              "clearing counters");
  // Slots of tiles without a row are read, but their results are discarded.
  if (c.expert_input != nullptr)
    build.check(cudaMemsetAsync(c.expert_input, 0, c.expert_input_elements * sizeof(__half), c.stream),
                "clearing rows of experts");
  // compute-sanitizer's initcheck does not see all of cuBLASLt's writes.
  if (c.product != nullptr)
    build.check(cudaMemsetAsync(c.product, 0, kProductBytes, c.stream), "clearing products");
  build.check(cudaMemsetAsync(c.sample_scans, 0, rows * sizeof(RowScan), c.stream), "clearing counters");
  if (c.gathers.inbox != nullptr) build.check(clear_gathers(c), "clearing the memory of shards");
  build.check(cudaStreamSynchronize(c.stream), "clearing counters");
}

Status wait_for(Context& c, cudaEvent_t event) {
  if (c.communicator != nullptr) return wait_with_shards(c, event);
  return c.device->check(cudaEventSynchronize(event), "running a step");
}

void deliver(DrawSlot& slot) {
  for (int32_t r = 0; r < slot.num_rows; ++r) {
    const SampleResult& result = slot.results[r];
    slot.outcomes[r] = {result.token, log_prob_of(result), result.status};
  }
  slot.num_rows = 0;
}

// Copies the first `count` of the requested rows to the caller.
void deliver_rows(Context& c, size_t count) {
  for (size_t i = 0; i < count; ++i) std::memcpy(c.pending[i].to, c.pending[i].from, c.pending[i].bytes);
  c.pending.erase(c.pending.begin(), c.pending.begin() + static_cast<ptrdiff_t>(count));
  for (DrawSlot& slot : c.draws) slot.num_pending -= std::min(slot.num_pending, count);
}

void deliver_everything(Context& c) {
  deliver_rows(c, c.pending.size());
  for (DrawSlot& slot : c.draws) deliver(slot);
}

// Copies the tokens drawn by the last call to sample to their places in the batch; runs of them are
// contiguous.
cudaError_t copy_drawn_tokens(Context& c, const BatchView& host) {
  for (int32_t t = 0; t < host.num_tokens;) {
    const int32_t row = host.drawn_rows[t];
    int32_t end = t + 1;
    while (row >= 0 && end < host.num_tokens && host.drawn_rows[end] == row + (end - t)) ++end;
    if (row >= 0) {
      const size_t bytes = static_cast<size_t>(end - t) * sizeof(int32_t);
      const cudaError_t error =
          cudaMemcpyAsync(c.batch + t, c.drawn + row, bytes, cudaMemcpyDeviceToDevice, c.stream);
      if (error != cudaSuccess) return error;
    }
    t = end;
  }
  return cudaSuccess;
}

// Copies the masks of a slot's rows to where the device can read them. Returns false if there are too many.
bool place_masks(Context& c, DrawSlot& slot) {
  const size_t words = mask_words(c.limits.vocab_size);
  const auto most = static_cast<size_t>(max_draw_masks(c.limits.max_logit_rows, c.limits.max_sequences));
  size_t used = 0;
  for (int32_t r = 0; r < slot.num_rows; ++r) {
    SampleRow& row = slot.rows[r];
    if (row.mask == nullptr) continue;
    if (used == most) return false;
    row.mask = std::copy_n(row.mask, words, slot.masks + used++ * words) - words;
  }
  return true;
}

}  // namespace

int32_t chunk_bucket(int32_t tokens) {
  const auto chunks = static_cast<uint32_t>(std::max(1, (tokens + kChunkTokens - 1) / kChunkTokens));
  if (chunks <= 8) return static_cast<int32_t>(std::bit_ceil(chunks));
  const uint32_t step = 1U << (std::bit_width(chunks - 1) - 3);
  return static_cast<int32_t>((chunks + step - 1) / step * step);
}

namespace {

Status check_limits(Device& device, const ContextLimits& limits) {
  if (limits.num_shards > kMaxGatherShards)
    return device.fail(Status::unsupported, "num_shards is " + std::to_string(limits.num_shards) +
                                                "; cards support up to " + std::to_string(kMaxGatherShards));
  if (limits.max_tokens > 0 && limits.max_sequences > 0 && limits.max_pages_per_sequence > 0 &&
      limits.num_page_tables > 0)
    return Status::ok;
  return device.fail(Status::invalid_argument,
                     "create_context: the limits allow no tokens, sequences or pages");
}

}  // namespace

Status plan_context(Device* device, const ContextLimits* limits, MemoryUse* use) {
  if (const Status s = check_limits(*device, *limits); s != Status::ok) return s;
  Context unused;
  unused.device = device;
  ContextBuilder build(*device, unused, ContextBuilder::Mode::count);
  take_buffers(build, unused, *limits);
  *use = build.use();
  use->held_bytes += static_cast<uint64_t>(limits->num_links) * kLinkBytes;
  return build.status();
}

Status create_context(Device* device, const ContextLimits* limits, Context** context) {
  *context = nullptr;
  if (const Status s = device->enter(); s != Status::ok) return s;
  if (const Status s = check_limits(*device, *limits); s != Status::ok) return s;
  auto made = std::make_unique<Context>();
  made->header.table = &device->table;
  made->device = device;
  made->limits = *limits;
  ContextBuilder build(*device, *made, ContextBuilder::Mode::take);
  build.check(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "creating a stream");
  build.check(cudaEventCreateWithFlags(&made->done, cudaEventDisableTiming), "creating an event");
  for (cudaEvent_t* event : {&made->passed, &made->transfer_sent, &made->rows_ready, &made->rows_received})
    build.check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  for (cudaEvent_t& event : made->batch_sent)
    build.check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  for (DrawSlot& slot : made->draws)
    build.check(cudaEventCreateWithFlags(&slot.drawn, cudaEventDisableTiming), "creating an event");
  if (limits->packed.staging_bytes > 0) make_packed_stream(build, made->packed);
  if (build.status() == Status::ok) take_buffers(build, *made, *limits);
  if (build.status() != Status::ok) {
    release_context(made.release());
    return build.status();
  }
  made->pending.reserve(16);
  *context = made.release();
  return Status::ok;
}

void release_context(Context* context) {
  if (context == nullptr) return;
  Device& device = *context->device;
  static_cast<void>(cudaSetDevice(device.ordinal));
  if (context->stream != nullptr) static_cast<void>(cudaStreamSynchronize(context->stream));
  if (context->packed.stream != nullptr) static_cast<void>(cudaStreamSynchronize(context->packed.stream));
  device.passes.forget(context->stream);
  context->recorded.take_all();
  for (void* memory : context->device_memory) device.release(memory);
  for (void* memory : context->pinned_memory) device.unpin(memory);
  for (cudaEvent_t event : context->batch_sent)
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  for (const DrawSlot& slot : context->draws)
    if (slot.drawn != nullptr) static_cast<void>(cudaEventDestroy(slot.drawn));
  for (cudaEvent_t event :
       {context->done, context->passed, context->transfer_sent, context->rows_ready, context->rows_received})
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  release_packed_stream(context->packed);
  if (context->stream != nullptr) static_cast<void>(cudaStreamDestroy(context->stream));
  delete context;
}

Status synchronize(Context* context) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  Status status = c.device->check(cudaEventRecord(c.done, c.stream), "waiting for a step");
  if (status == Status::ok) status = wait_for(c, c.done);
  if (status == Status::ok) deliver_everything(c);
  return status;
}

namespace {

// Returns the number of leading sequences with one token. Decoding jobs come first in a step, before prompts.
int32_t num_single(const BatchView& host) {
  int32_t s = 0;
  while (s < host.num_sequences && host.sequence_starts[s + 1] == s + 1) ++s;
  return s;
}

// Appends the shared pages of sequences with one token to the batch in pinned memory, which holds `used`
// integers so far.
SharedKeys add_shared_pages(const Context& c, const BatchView& host, int32_t num_single, int32_t* batch,
                            size_t& used) {
  const auto sequences = static_cast<size_t>(num_single);
  const size_t pages_at = used + 2 * sequences;
  const SharedPages found{batch + used, batch + used + sequences,
                          reinterpret_cast<SharedPage*>(batch + pages_at)};
  SharedKeys shared;
  shared.num_pages = find_shared_pages(host, num_single, found);
  if (shared.num_pages == 0) return shared;
  shared.members = c.batch + used;
  shared.page_counts = shared.members + sequences;
  shared.pages = reinterpret_cast<const SharedPage*>(c.batch + pages_at);
  used = pages_at + static_cast<size_t>(shared.num_pages) * (sizeof(SharedPage) / sizeof(int32_t));
  return shared;
}

}  // namespace

Status bind_batch(Context* context, const BatchView* host, BatchView* device) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  if (!batch_is_sound(c.limits, *host))
    return c.device->fail(Status::invalid_argument,
                          "bind_batch: the batch exceeds the limits of its context");
  if (!states_are_sound(*host))
    return c.device->fail(Status::invalid_argument,
                          "bind_batch: slots or banks of states do not fit the positions of their sequences");
  c.moves_states = any_state_moves(*host);
  const bool takes_drawn = host->drawn_rows != nullptr;
  if (takes_drawn && *std::max_element(host->drawn_rows, host->drawn_rows + host->num_tokens) >= c.num_drawn)
    return c.device->fail(Status::invalid_argument,
                          "bind_batch: drawn_rows has rows that the last call to sample did not draw");
  c.num_drawn = 0;
  const size_t slot = c.next_slot++ % Context::kSlots;
  QUIRE_RETURN_IF_FAILED(c.device->check(cudaEventSynchronize(c.batch_sent[slot]), "copying a batch"));
  int32_t* to = c.batch_slots[slot];
  size_t used = 0;
  const auto put = [&](const int32_t* values, int32_t count) {
    const auto size = static_cast<size_t>(count);
    if (values != nullptr) std::memcpy(to + used, values, size * sizeof(int32_t));
    const int32_t* at = c.batch + used;
    used += size;
    return at;
  };
  *device = *host;
  device->token_ids = put(host->token_ids, host->num_tokens);
  device->positions = put(host->positions, host->num_tokens);
  device->sequence_of_token = put(host->sequence_of_token, host->num_tokens);
  device->sequence_starts = put(host->sequence_starts, host->num_sequences + 1);
  device->kv_lengths = put(host->kv_lengths, host->num_sequences);
  device->logit_rows = put(host->logit_rows, host->num_logit_rows);
  if (host->read_slots != nullptr)
    for (const int32_t** array : {&device->read_slots, &device->write_slots, &device->state_banks})
      *array = put(*array, host->num_sequences);
  // The stride is that of the context, so that a recorded step finds its tables at the same addresses.
  // Kernels may read a little past a sequence's entries and find page 0 there.
  device->page_table = c.batch + used;
  device->page_table_stride = c.limits.max_pages_per_sequence;
  for (int32_t s = 0; s < host->num_page_tables * host->num_sequences; ++s) {
    put(host->page_table + static_cast<size_t>(s) * static_cast<size_t>(host->page_table_stride),
        host->page_table_stride);
    const auto rest = static_cast<size_t>(device->page_table_stride - host->page_table_stride);
    std::fill_n(to + used, rest, 0);
    used += rest;
  }
  device->num_single = num_single(*host);
  c.shared = add_shared_pages(c, *host, device->num_single, to, used);
  c.shared.page_table = device->page_table;
  device->max_kv_tokens = chunk_bucket(host->max_kv_tokens) * kChunkTokens;
  device->drawn_rows = nullptr;
  cudaError_t error = cudaMemcpyAsync(c.batch, to, used * sizeof(int32_t), cudaMemcpyHostToDevice, c.stream);
  if (error == cudaSuccess) error = cudaEventRecord(c.batch_sent[slot], c.stream);
  if (error == cudaSuccess && takes_drawn) error = copy_drawn_tokens(c, *host);
  return c.device->check(error, "copying a batch");
}

namespace {

// Marks the end of the issued work of a step if nothing failed.
Status mark_pass(Context& c, const Status& issued) {
  if (issued != Status::ok) return issued;
  return c.device->check(c.device->passes.mark(c.stream, c.communicator, c.passed), "issuing a step");
}

}  // namespace

Status begin_step(Context* context, const BatchView* batch, StepAction* action) {
  Context& c = *context;
  *action = StepAction::run;
  c.recording.reset();
  QUIRE_RETURN_IF_FAILED(c.device->enter());
  QUIRE_RETURN_IF_FAILED(
      c.device->check(c.device->passes.follow(c.stream, c.communicator), "issuing a step"));
  // Without a recording, each operation waits for its own weights. The weights being copied may belong to
  // another model.
  const bool are_arriving = c.device->arrivals.any(true);
  if (c.limits.waits_within_steps != 0 || batch->num_tokens > kMaxRecordedTokens ||
      (are_arriving && !c.recorded_weights.have_come()))
    return announce_weights(c, are_arriving);
  const StepKey key{.num_tokens = batch->num_tokens,
                    .num_sequences = batch->num_sequences,
                    .num_logit_rows = batch->num_logit_rows,
                    .max_query_tokens = batch->max_query_tokens,
                    .max_kv_tokens = batch->max_kv_tokens,
                    .num_single = batch->num_single,
                    .num_shared_pages = c.shared.num_pages,
                    .moves_states = c.moves_states};
  if (const StepGraph* recorded = c.recorded.find(key); recorded != nullptr) {
    *action = StepAction::replayed;
    return mark_pass(c, c.device->check(cudaGraphLaunch(recorded->get(), c.stream), "replaying a step"));
  }
  if (are_arriving || !c.recorded.should_record(key)) return announce_weights(c, are_arriving);
  c.recording = key;
  return c.device->check(cudaStreamBeginCapture(c.stream, cudaStreamCaptureModeThreadLocal),
                         "recording a step");
}

namespace {

// Stores the recording and starts it. Sets `action` to `run` if there is no memory for it.
Status replay_recorded(Context& c, const StepKey& key, cudaGraph_t recorded, StepAction* action) {
  Device& device = *c.device;
  size_t num_kernels = 0;
  if (const Status s = device.check(cudaGraphGetNodes(recorded, nullptr, &num_kernels), "recording a step");
      s != Status::ok)
    return s;
  c.recorded.evict_for(num_kernels);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, recorded, 0);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    c.recorded.settle(key);
    *action = StepAction::run;
    return Status::ok;
  }
  if (const Status s = device.check(error, "recording a step"); s != Status::ok) return s;
  const StepGraph& kept = c.recorded.keep(key, StepGraph(executable), num_kernels);
  return mark_pass(c, device.check(cudaGraphLaunch(kept.get(), c.stream), "replaying a step"));
}

}  // namespace

Status end_step(Context* context, StepAction* action) {
  Context& c = *context;
  *action = StepAction::replayed;
  if (!c.recording) {
    QUIRE_RETURN_IF_FAILED(announce_weights(c, false));
    return mark_pass(c, c.device->check_launch("running a step"));
  }
  const StepKey key = *std::exchange(c.recording, std::nullopt);
  cudaGraph_t recorded = nullptr;
  Status status = c.device->check(cudaStreamEndCapture(c.stream, &recorded), "recording a step");
  if (status == Status::ok) status = replay_recorded(c, key, recorded, action);
  if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
  return status;
}

Status pause_step(Context* context, int32_t* paused) {
  Context& c = *context;
  *paused = c.recording ? 0 : 1;
  if (c.recording) return Status::ok;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  return c.device->check(cudaStreamSynchronize(c.stream), "running a step");
}

Status resume_step(Context* context) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  return c.device->check(c.device->passes.follow(c.stream, c.communicator), "issuing a step");
}

Status forget_steps(Context* context) {
  const Status status = synchronize(context);
  context->recorded.take_all();
  context->recorded_weights.clear();
  return status;
}

void discard_recording(Context& c) {
  c.delayed_gather.reset();
  if (!c.recording) return;
  c.recording.reset();
  cudaGraph_t recorded = nullptr;
  static_cast<void>(cudaStreamEndCapture(c.stream, &recorded));
  if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
  static_cast<void>(cudaGetLastError());  // clears the error of a recording that the failure has invalidated
}

Status read_rows(Context* context, const float* device_rows, int32_t rows, int32_t columns, float* host) {
  Context& c = *context;
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  size_t used = 0;
  for (const PendingCopy& copy : c.pending) used += copy.bytes / sizeof(float);
  if (used + count > c.host_row_floats)
    return c.device->check(
        cudaMemcpyAsync(host, device_rows, count * sizeof(float), cudaMemcpyDeviceToHost, c.stream),
        "reading rows");
  float* pinned = c.host_rows + used;
  c.pending.push_back({pinned, host, count * sizeof(float)});
  return c.device->check(
      cudaMemcpyAsync(pinned, device_rows, count * sizeof(float), cudaMemcpyDeviceToHost, c.stream),
      "reading rows");
}

Status sample(Context* context, const SampleParams* params) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  if (params->num_rows <= 0) return Status::ok;
  if (params->num_rows > c.limits.max_logit_rows || params->vocab_size > c.limits.vocab_size ||
      params->vocab_size > params->stride || params->num_edits > c.limits.max_sample_edits)
    return c.device->fail(Status::invalid_argument,
                          "sample: more rows, logits or edits than the limits of the context allow");
  DrawSlot& slot = c.draws[c.next_draw++ % Context::kDrawSlots];
  // The slot may belong to a step that was abandoned.
  if (const Status s = c.device->check(cudaEventSynchronize(slot.drawn), "sampling"); s != Status::ok)
    return s;
  // Slots and the memory of the caller alternate, but not with the same steps: both slots may have this
  // memory.
  for (DrawSlot& earlier : c.draws)
    if (earlier.outcomes == params->outcomes) earlier.abandon();
  std::copy_n(params->rows, params->num_rows, slot.rows);
  std::copy_n(params->edits, params->num_edits, slot.edits);
  slot.outcomes = params->outcomes;
  slot.num_rows = c.num_drawn = params->num_rows;
  slot.num_pending = c.pending.size();
  if (!place_masks(c, slot)) {
    slot.abandon();
    c.num_drawn = 0;
    return c.device->fail(Status::invalid_argument,
                          "sample: more masks than the limits of the context allow");
  }
  SampleArguments arguments;
  arguments.logits = params->logits;
  arguments.stride = params->stride;
  arguments.vocab_size = params->vocab_size;
  arguments.num_rows = params->num_rows;
  arguments.rows = slot.rows;
  arguments.edits = slot.edits;
  arguments.results = slot.results;
  arguments.tokens = c.drawn;
  arguments.scans = c.sample_scans;
  arguments.adjusted = c.sample_adjusted;
  const bool largest_only = all_need_largest_only(params->rows, params->num_rows);
  cudaError_t error = launch_sample(arguments, largest_only, c.launch());
  if (error == cudaSuccess) error = cudaEventRecord(slot.drawn, c.stream);
  return mark_pass(c, c.device->check(error, "sampling"));
}

Status wait_for_draws(Context* context, const SampleOutcome* outcomes) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  const auto slot =
      std::find_if(c.draws.begin(), c.draws.end(), [&](const DrawSlot& s) { return s.outcomes == outcomes; });
  if (slot == c.draws.end())
    return c.device->fail(Status::invalid_argument, "wait_for_draws: no call to sample has these outcomes");
  if (slot->num_rows == 0) return Status::ok;  // synchronize has completed it already
  const Status status = wait_for(c, slot->drawn);
  if (status != Status::ok) return status;
  deliver_rows(c, slot->num_pending);
  deliver(*slot);
  return status;
}

}  // namespace quire::kernels
