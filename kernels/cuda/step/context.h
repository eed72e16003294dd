// Context: one stream of work with all of its memory allocated in advance, at fixed addresses.
#pragma once

#include <array>
#include <cstdint>
#include <cuda_runtime.h>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/collective/gather.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/experts/packed.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/plan/recorded_steps.h"
#include "kernels/cuda/sample/sample.h"
#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// A recorded step (CUDA graph). Destroying it during a replay lets the replay finish.
struct GraphDeleter {
  void operator()(CUgraphExec_st* graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
};
using StepGraph = std::unique_ptr<CUgraphExec_st, GraphDeleter>;

// A copy to the caller's memory that completes in synchronize.
struct PendingCopy {
  const void* from = nullptr;  // pinned
  void* to = nullptr;
  size_t bytes = 0;
};

// A call to sample in flight: its pinned memory and the caller's results.
struct DrawSlot {
  SampleRow* rows = nullptr;
  LogitEdit* edits = nullptr;
  SampleResult* results = nullptr;
  uint32_t* masks = nullptr;  // [max_draw_masks, words of the vocabulary]
  cudaEvent_t drawn = nullptr;
  SampleOutcome* outcomes = nullptr;  // the caller's; no other slot has the same
  int32_t num_rows = 0;               // 0 once delivered
  size_t num_pending = 0;             // number of entries of Context::pending that come before these draws

  // Discards the results.
  void abandon() {
    outcomes = nullptr;
    num_rows = 0;
  }
};

// Description of the rows that are sorted in expert_slots now.
struct SortedRows {
  const int32_t* expert_of_row = nullptr;
  int32_t rows = 0;
  int32_t num_experts = 0;
  int32_t tile_rows = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  bool operator==(const SortedRows&) const = default;
};

// Memory of a shard for its gathers; all null without shards.
struct GatherMemory {
  InboxLayout layout;
  uint8_t* inbox = nullptr;  // layout.total_bytes, on the card or in pinned host memory
  GatherState* state = nullptr;
  GatherControl* control = nullptr;  // pinned; a communicator uses that of its first shard
};

// A gather that has been put off until the operation that reads its result, which may do both at once.
struct DelayedGather {
  GatherArguments arguments;
  GatherPlan plan;
};

// A staging buffer for packed experts: pinned memory that the host fills, and its copy on the card.
struct ExpertStaging {
  uint8_t* host = nullptr;
  uint8_t* device = nullptr;
  cudaEvent_t sent = nullptr;  // recorded after the copies to the card
  cudaEvent_t used = nullptr;  // recorded after the last kernel that reads the copy
};

// Memory in which packed experts are multiplied; all null without them.
struct PackedMemory {
  PackedSizes sizes;
  cudaStream_t stream = nullptr;  // of the copies of experts, beside the stream of the kernels
  std::array<ExpertStaging, 2> staging{};
  size_t next_staging = 0;
  uint8_t* slots = nullptr;          // [num_slots] of slot_bytes: experts that stay
  float* host_tokens = nullptr;      // pinned, [max_tokens, num_in or num_out]: inputs, later sums
  float* host_factors = nullptr;     // pinned, [rows] weights or input scales of rows
  int32_t* host_rows = nullptr;      // pinned, [rows] sorted by expert
  PackedTile* host_tiles = nullptr;  // pinned
  float* host_outputs = nullptr;     // pinned, [rows, num_out] of start_slot_experts, sorted by expert
  size_t num_started = 0;            // rows of start_slot_experts that are not finished
  size_t started_columns = 0;
  float* tokens = nullptr;
  float* factors = nullptr;
  int32_t* rows = nullptr;
  PackedTile* tiles = nullptr;
  int8_t* codes = nullptr;
  float* scales = nullptr;
  float* products = nullptr;
  float* outputs = nullptr;  // [rows, num_out]
};

struct Context {
  ContextHeader header;
  Device* device = nullptr;
  ContextLimits limits;
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  cudaEvent_t passed = nullptr;  // recorded after the context's latest work, for PassOrder

  // Batches are copied through a ring of pinned buffers to one device buffer.
  static constexpr size_t kSlots = 4;
  std::array<int32_t*, kSlots> batch_slots{};
  std::array<cudaEvent_t, kSlots> batch_sent{};
  size_t next_slot = 0;
  int32_t* batch = nullptr;
  size_t batch_ints = 0;

  float* partials = nullptr;
  size_t partial_floats = 0;
  uint32_t* counters = nullptr;
  int32_t num_counters = 0;
  AttentionScratch attention;
  SharedKeys shared;           // shared pages of the latest batch
  bool moves_states = false;   // a sequence of the latest batch continues its state in another slot
  __half* gathered = nullptr;  // [max_tokens up to a whole tile, max_columns + kBlockRows]
  size_t gathered_elements = 0;
  uint8_t* solved_lines = nullptr;  // [max_solved_lines] of state_line_bytes, or nullptr
  // Only with experts (MoE): their rows sorted into tiles, and the input of the tiles.
  int32_t* expert_slots = nullptr;  // [kMaxExpertSlots] experts of tiles, then [kMaxExpertSlots] rows of
                                    // slots
  SortedRows sorted_rows;
  __half* expert_input = nullptr;
  size_t expert_input_elements = 0;
  PackedMemory packed;
  __half* slab = nullptr;    // expanded weights of a large product
  float* product = nullptr;  // f32 results of a large product that still need a bias
  void* library_workspace = nullptr;

  float* host_rows = nullptr;  // pinned
  size_t host_row_floats = 0;
  float* transfer_rows = nullptr;  // pinned, [max_tokens, handed_columns]
  size_t transfer_floats = 0;
  cudaEvent_t transfer_sent = nullptr;  // recorded after the copy from transfer_rows
  cudaEvent_t rows_ready = nullptr;     // recorded when rows are ready for another context
  cudaEvent_t rows_received = nullptr;  // recorded when rows of another context have been copied
  const Device* connected = nullptr;    // device whose memory this card has been given access to, if it can
  GatherMemory gathers;
  Communicator* communicator = nullptr;  // of the shards of the stage; null: there is one shard
  int32_t rank = 0;                      // in the communicator
  std::optional<DelayedGather> delayed_gather;
  bool announced_weights = false;  // the step has announced that it waits for weights
  RowScan* sample_scans = nullptr;
  float* sample_adjusted = nullptr;
  static constexpr size_t kDrawSlots = 2;  // one step, and the step that follows it
  std::array<DrawSlot, kDrawSlots> draws{};
  size_t next_draw = 0;
  int32_t* drawn = nullptr;  // [max_logit_rows] tokens of the last call to sample
  int32_t num_drawn = 0;     // number of these; 0 after a batch has been bound
  std::vector<PendingCopy> pending;

  // Limit for all recorded steps together. Per kernel the driver uses 3 to 4 KB of the card and 8 to 11 KB of
  // the host (H200, 8B).
  static constexpr size_t kMaxRecordedKernels = 16384;
  RecordedSteps<StepGraph> recorded{kMaxRecordedKernels};
  std::optional<StepKey> recording;  // the step being recorded
  RecordedWeights recorded_weights;

  std::vector<void*> device_memory;
  std::vector<void*> pinned_memory;

  Launch launch() const { return {stream, device->is_hopper}; }
};

constexpr int32_t kMaxExpertSlots = 1 << 16;
constexpr size_t kSlabBytes = size_t{48} << 20;
constexpr size_t kProductBytes = size_t{32} << 20;

// Returns the number of chunks of keys for which grids are sized if the longest sequence has `tokens`: one of
// few distinct numbers, at most a quarter too large.
int32_t chunk_bucket(int32_t tokens);

// Table entries (context.cpp).
Status create_context(Device* device, const ContextLimits* limits, Context** context);
void release_context(Context* context);
Status plan_context(Device* device, const ContextLimits* limits, MemoryUse* use);
Status synchronize(Context* context);
Status bind_batch(Context* context, const BatchView* host, BatchView* device);
Status begin_step(Context* context, const BatchView* batch, StepAction* action);
Status end_step(Context* context, StepAction* action);
Status pause_step(Context* context, int32_t* paused);
Status resume_step(Context* context);
Status forget_steps(Context* context);
// Ends and discards the recording of a step, so that the stream accepts work again. The message of the
// original failure is kept.
void discard_recording(Context& context);
Status read_rows(Context* context, const float* device_rows, int32_t rows, int32_t columns, float* host);
Status write_rows(Context* context, const float* host, int32_t rows, int32_t columns, float* device_rows);
Status receive_rows(Context* context, float* device_rows, Context* from, const float* from_rows, int32_t rows,
                    int32_t columns);
Status sum_packed_experts(Context* context, const PackedExpertsParams* params);
Status fill_expert_slots(Context* context, const PackedExpertsParams* params);
Status start_slot_experts(Context* context, const PackedExpertsParams* params);
Status finish_slot_experts(Context* context, float* outputs);
Status sample(Context* context, const SampleParams* params);
Status wait_for_draws(Context* context, const SampleOutcome* outcomes);

// Layout of a product's input and output.
struct ProductForm {
  bool in_row_order = false;  // columns are already in the stored row order of the weight's only group
  bool arranged = false;      // in_row_order only: also arranged, if reads_arranged is true
  bool arranges = false;      // the output is to be arranged for the matrix that reads it
  int32_t activation = -1;    // an Activation for a paired weight (gate, up): output = act(gate) * up; or -1
};
Status multiply(Context& context, const LinearParams& params, const ProductForm& form);
// Multiplies, with the norm of the input computed by the same kernel; only if fuses_norm is true.
Status multiply_normed(Context& context, const NormParams& norm, const LinearParams& params,
                       const ProductForm& form);
bool fuses_norm(const Context& context, const Weight& weight, const NormParams& norm);
// Returns true if the norm of the input must not be rounded to f16 before the product (FP8 activations).
bool rounds_norm(const Weight& weight);
// supports_row_order returns true if a kernel may write the input of this weight in its row order; row_place
// returns the place of each row.
bool supports_row_order(const Weight& weight);
const int32_t* row_place(const Weight& weight);
// reads_arranged returns true if that many rows should also be arranged (arranged.cuh); arranged_elements
// returns their size in Context::gathered.
bool reads_arranged(const Context& context, const Weight& weight, int32_t rows);
size_t arranged_elements(int32_t rows, int32_t columns);
bool uses_library(const Context& context, int32_t rows);

// If `append` is given, also writes the step's tokens to the cache; only if fuses_append is true.
Status attend(Context& context, const AttentionParams& params, const AppendKvParams* append,
              const int32_t* place);
bool fuses_append(const Context& context, const AttentionParams& params);

// Features that the operations support; models that need others are rejected when they are loaded. FP8
// activations are added if the card has such products.
constexpr uint64_t kMechanisms =
    ((uint64_t{1} << kNumMechanisms) - 1) &
    ~static_cast<uint64_t>(kMechanismByteActivations | kMechanismFloat8Activations);

// Table entries (operations.cpp, states.cpp, blocks.cpp).
Status embed(Context* context, const EmbedParams* params);
Status norm(Context* context, const NormParams* params);
Status linear(Context* context, const LinearParams* params);
Status rope_angles(Context* context, const RopeAnglesParams* params);
Status append_kv(Context* context, const AppendKvParams* params);
Status attention(Context* context, const AttentionParams* params);
Status activation(Context* context, const ActivationParams* params);
Status scale_logits(Context* context, float* logits, int64_t count, float scale, float softcap);
Status row_op(Context* context, const RowOpParams* params);
Status route(Context* context, const RouteParams* params);
Status expert_linear(Context* context, const ExpertLinearParams* params);
Status combine(Context* context, const CombineParams* params);
Status expand_latent(Context* context, const ExpandLatentParams* params);
Status select_keys(Context* context, const SelectKeysParams* params);
Status mix_streams(Context* context, const MixStreamsParams* params);
Status collapse_streams(Context* context, const CollapseStreamsParams* params);
Status expand_streams(Context* context, const ExpandStreamsParams* params);
Status copy_page(Context* context, const CopyPageParams* params);
Status convolve(Context* context, const ConvolveParams* params);
Status delta_rule(Context* context, const DeltaRuleParams* params);
Status state_space(Context* context, const StateSpaceParams* params);
Status linear_attention(Context* context, const LinearAttentionParams* params);
Status selective_scan(Context* context, const SelectiveScanParams* params);
Status gated_norm(Context* context, const GatedNormParams* params);
Status copy_state(Context* context, const CopyStateParams* params);
Status attention_block(Context* context, const AttentionBlockParams* params);
Status mlp_block(Context* context, const MlpBlockParams* params);
Status choose_experts(Context* context, const ExpertChoiceParams* params);
Status head(Context* context, const HeadParams* params);

}  // namespace quire::kernels
