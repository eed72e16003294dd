// The only interface between the engine and a backend: a table of functions, every entry filled.
//
// A backend fills the table itself, entry by entry. For the composite entries it may use the functions of
// composite.h, which are built from the primitives. Operations that a backend lacks return
// Status::unsupported, and their capability bit is not set. Composites exist so that a backend can fuse them
// without a change to the engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/op_params.h"
#include "kernels/interface/packed_experts.h"
#include "kernels/interface/row_link.h"
#include "kernels/interface/state_params.h"
#include "kernels/interface/types.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Changes whenever any struct of this folder changes; a plug-in with another number is refused.
inline constexpr uint32_t kBackendAbi = 27;

enum Capability : uint64_t {
  kCapabilityDeviceSampling = 1U << 0,
  kCapabilityStepReplay = 1U << 1,  // begin_step may return `replayed`
  kCapabilityKvFp8 = 1U << 2,
  kCapabilityKvQuantized = 1U << 3,     // q8 and q4
  kCapabilityDeterministic = 1U << 4,   // results never depend on the batch
  kCapabilityFollowingSteps = 1U << 5,  // see wait_for_draws
  kCapabilityShards = 1U << 6,          // connect_shards and the entries after it
  kCapabilityParkedWeights = 1U << 7,   // copy_weight, park_weight, bring_weight
  kCapabilityPackedExperts = 1U << 8,   // sum_packed_experts
};

struct DeviceInfo {
  char name[128] = {};    // "AMD EPYC ..., avx512", "NVIDIA H200"
  char detail[256] = {};  // driver, compute capability, instruction set
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  int32_t num_units = 0;  // threads, or multiprocessors
};

struct DeviceOptions {
  int32_t num_threads = 0;  // CPU: 0 uses all threads that the process may run on
  int32_t deterministic = 1;
  uint64_t memory_limit_bytes = 0;  // limit on device memory, out_of_memory beyond it; 0: no limit
};

// Sizes of everything a context needs, so that nothing is allocated later.
struct ContextLimits {
  int32_t max_tokens = 0;  // largest T of any step
  int32_t max_sequences = 0;
  int32_t max_logit_rows = 0;
  int32_t max_sample_edits = 0;  // edits in one call to sample
  int32_t max_pages_per_sequence = 0;
  int32_t num_page_tables = 1;
  int32_t max_columns = 0;     // the largest K or N of any matrix except the head
  int32_t expert_columns = 0;  // the largest K + N of an expert's matrix; 0: no experts
  int32_t vocab_size = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t handed_columns = 0;  // columns of rows that write_rows or read_rows transfer, other than logits; 0:
                               // none
  uint64_t state_line_bytes =
      0;                      // the largest solved_line_bytes of any layer; 0: no lines are solved in advance
  int32_t num_shards = 1;     // of the stage, see connect_shards
  uint64_t gather_bytes = 0;  // the largest result of an all-gather; 0: there is none
  int32_t gathers_on_host = 0;     // gathers go through host memory, since `reaches` returns 0 for the shards
  int32_t waits_within_steps = 0;  // 1: rows leave and return within a step, so no step is recorded
  PackedExpertLimits packed;
  int32_t num_links = 0;  // links of the context, see create_link
};

enum class StepAction : int32_t {
  run = 0,       // issue the operations of the step, then end_step
  replayed = 1,  // the same operations were recorded before and are running; skip to the results
};

struct KernelTable {
  uint32_t abi = kBackendAbi;
  uint64_t capabilities = 0;
  uint64_t mechanisms = 0;  // bits of enum Mechanism that its operations support
  DType activation_dtype = DType::f32;
  const char* name = "";  // "cpu-scalar", "cpu-avx2", "cpu-avx512", "cuda"
  uint64_t map_unit = 0;  // granularity of `map` in bytes; 0: addresses cannot be reserved

  // Returns the memory allocated by all entries on this device. May be called on any thread.
  void (*memory_use)(const Device* device, MemoryUse* use) = nullptr;

  // Memory. Addresses are aligned to 256 bytes; the content is undefined. release(nullptr) is a no-op.
  // taken_bytes returns the device memory used by one allocation of `bytes`, rounded up to whole pages if the
  // device has them. memory_use counts all memory in this way.
  uint64_t (*taken_bytes)(uint64_t bytes) = nullptr;
  Status (*allocate)(Device* device, size_t bytes, void** memory) = nullptr;
  void (*release)(Device* device, void* memory) = nullptr;
  // Synchronous copies, for loading and tests.
  Status (*upload)(Device* device, void* target, const void* host, size_t bytes) = nullptr;
  Status (*download)(Device* device, void* host, const void* source, size_t bytes) = nullptr;
  Status (*fill)(Device* device, void* target, uint8_t byte, size_t bytes) = nullptr;

  // Memory that grows and shrinks at fixed addresses. reserve allocates addresses only. map gives memory to a
  // part of them that has none; unmap frees the memory of one call to map at that offset. Offsets and bytes
  // are multiples of map_unit; memory_use counts mapped memory. The caller makes sure that no running work
  // accesses memory that it unmaps. unreserve frees the remaining memory and the addresses.
  Status (*reserve)(Device* device, size_t bytes, void** range) = nullptr;
  Status (*map)(Device* device, void* range, size_t offset, size_t bytes) = nullptr;
  void (*unmap)(Device* device, void* range, size_t offset) = nullptr;
  void (*unreserve)(Device* device, void* range) = nullptr;

  // Frees buffers that are cached between calls to speed up the loading of weights.
  void (*trim)(Device* device) = nullptr;

  // Weights. A matrix may have several parts that share their input (q, k, v; gate, up): its output is the
  // parts' outputs side by side. Matrices that are prepared together may share one block of memory, which is
  // freed with the last of them. Any thread. On failure nothing stays allocated and every weight is null.
  Status (*prepare_weights)(Device* device, const MatrixSource* matrices, int32_t num_matrices,
                            Weight** weights) = nullptr;
  Status (*prepare_table)(Device* device, const TableSource* source, Weight** weight) = nullptr;
  void (*release_weight)(Device* device, Weight* weight) = nullptr;
  uint64_t (*weight_bytes)(const Weight* weight) = nullptr;  // bytes of device memory
  // Offload of weights to host memory (kCapabilityParkedWeights). A weight comes back unchanged and to the
  // same addresses, so recorded steps stay valid. Only the memory block shared by matrices prepared together
  // is freed; small blocks stay. Any thread.
  // copy_weight makes the host copy, which exists until the weight is released; a second call copies nothing.
  // Everything that can fail during an offload happens here, so that a model is offloaded completely or not
  // at all. Fails with out_of_memory when host memory runs out.
  // park_weight, called after that, frees the device memory. Nothing may compute with the weight until
  // bring_weight. Returns the number of bytes freed on the device, which is also the size of the host copy; 0
  // if the weight is offloaded already or cannot be.
  // bring_weight allocates the memory and starts the copy back; operations that read the weight wait for the
  // copy by themselves. A no-op if the weight is on the device. On failure the weight stays offloaded.
  Status (*copy_weight)(Device* device, const Weight* weight) = nullptr;
  uint64_t (*park_weight)(Device* device, const Weight* weight) = nullptr;
  Status (*bring_weight)(Device* device, const Weight* weight) = nullptr;
  // Returns what weight_bytes will be for each matrix, computed by the code that lays the matrix out.
  // taken_bytes of the sum is the memory of matrices that are prepared together. Needs a source without its
  // codes, scales and values: those pointers may be null.
  Status (*plan_weights)(Device* device, const MatrixSource* matrices, int32_t num_matrices,
                         uint64_t* bytes) = nullptr;
  Status (*plan_table)(Device* device, const TableSource* source, uint64_t* bytes) = nullptr;
  // Writes the matrix as [K, N] f32 to host memory: rows in the order of the input features, columns in that
  // of the outputs, prescale applied, each element rounded to f16 if the format is quantized. For tests,
  // conversion and inspection.
  Status (*dequantize)(Device* device, const Weight* weight, float* host) = nullptr;

  // Host experts on a card. The CPU describes its matrices and copies within host memory with all its
  // threads; the card multiplies with the bits of the CPU (kCapabilityPackedExperts). describe_weight returns
  // unsupported if the matrix is not in packed form (is_packed_form).
  Status (*describe_weight)(const Weight* weight, PackedWeight* described) = nullptr;
  Status (*copy_pieces)(Context* context, const CopyPiece* pieces, int32_t count) = nullptr;
  // sum_packed_experts waits for the result. It multiplies experts that are in slots from there, and fills
  // the slots of those that are not. fill_expert_slots only fills slots, without rows. start_slot_experts
  // starts the products of the rows whose experts are in slots. finish_slot_experts waits for them, and
  // writes the outputs of down to their rows of `outputs`, [rows of that call, columns]. Never called while a
  // step is recorded.
  Status (*sum_packed_experts)(Context* context, const PackedExpertsParams* params) = nullptr;
  Status (*fill_expert_slots)(Context* context, const PackedExpertsParams* params) = nullptr;
  Status (*start_slot_experts)(Context* context, const PackedExpertsParams* params) = nullptr;
  Status (*finish_slot_experts)(Context* context, float* outputs) = nullptr;

  // Contexts.
  Status (*create_context)(Device* device, const ContextLimits* limits, Context** context) = nullptr;
  void (*release_context)(Context* context) = nullptr;
  // Returns the memory that create_context will allocate.
  Status (*plan_context)(Device* device, const ContextLimits* limits, MemoryUse* use) = nullptr;
  Status (*synchronize)(Context* context) = nullptr;  // waits for all work of the context

  // One step: bind_batch, begin_step, the operations, end_step, then read_logits or sample, synchronize.
  // end_step returns `run` if the operations must be issued once more, starting with begin_step: they were to
  // be recorded, and memory ran out. Otherwise it returns `replayed`. bind_batch copies the arrays of `host`
  // to where the device can read them and returns a view of the copies. With kCapabilityFollowingSteps a step
  // may be issued before the draws of the step before it are waited for. Token i is then the token drawn for
  // row drawn_rows[i] of the last call to sample (an arbitrary token if none was drawn), or token_ids[i] if
  // drawn_rows[i] is -1.
  Status (*bind_batch)(Context* context, const BatchView* host, BatchView* device) = nullptr;
  Status (*begin_step)(Context* context, const BatchView* batch, StepAction* action) = nullptr;
  Status (*end_step)(Context* context, StepAction* action) = nullptr;
  // Called between begin_step and end_step: waits until the issued part of the step is computed, so that
  // another context may use the device. Sets `paused` to 0 and returns at once if the step is being recorded.
  // After resume_step the rest of the step runs after everything that other contexts have issued by then.
  Status (*pause_step)(Context* context, int32_t* paused) = nullptr;
  Status (*resume_step)(Context* context) = nullptr;
  // Discards recorded steps, because their weights have moved or changed. Waits for the work of the context.
  Status (*forget_steps)(Context* context) = nullptr;
  // Copies `rows` rows of `columns` f32 to host memory; complete once synchronize returns.
  Status (*read_rows)(Context* context, const float* device_rows, int32_t rows, int32_t columns,
                      float* host) = nullptr;

  // Transfer of the residual stream between devices, never while a step is recorded. Both functions are
  // ordered before later work of `context` and wait for no more than they must. write_rows copies rows from
  // host memory, which may change once it returns.
  Status (*write_rows)(Context* context, const float* host, int32_t rows, int32_t columns,
                       float* device_rows) = nullptr;
  // Copies rows from the memory of another context of this backend after the work issued there so far; later
  // work of that context waits for the copy.
  Status (*receive_rows)(Context* context, float* device_rows, Context* from, const float* from_rows,
                         int32_t rows, int32_t columns) = nullptr;

  // Returns 1 if the kernels of each device can access the memory of the other. Both are of this backend.
  int32_t (*reaches)(Device* device, Device* other) = nullptr;

  // Tensor parallelism. Contexts of one backend, with shard r at contexts[r], run their steps in parallel,
  // each on its own thread. Each context issues the same gathers in the same order. Contexts on one device
  // share its threads. The contexts outlive the communicator. ContextLimits::num_shards of each is
  // num_shards.
  Status (*connect_shards)(Context* const* contexts, int32_t num_shards,
                           Communicator** communicator) = nullptr;
  void (*release_communicator)(Communicator* communicator) = nullptr;
  // Gathers every shard's columns of a result, side by side in the order of shards. `input` may change once
  // this returns.
  Status (*all_gather)(Context* context, const AllGatherParams* params) = nullptr;
  // Called if a shard cannot continue: all waiting and later gathers of all shards return Status::interrupted
  // until resume_shards. interrupt_shards may be called on any thread, resume_shards only while no shard is
  // working.
  void (*interrupt_shards)(Communicator* communicator) = nullptr;
  void (*resume_shards)(Communicator* communicator) = nullptr;

  // Links (row_link.h): a context sends rows to a context of another process and receives rows from it,
  // without the memory of the host. The library that does it is opened at run time. A backend without links
  // returns unsupported from open_links, and has no other entry of these called. open_links opens the
  // library, if no earlier call has. Fails with unsupported and the reason. Any thread.
  Status (*open_links)(Device* device, LinkSupport* support) = nullptr;
  Status (*make_link_id)(Device* device, LinkId* id) = nullptr;
  // Begins to connect a context, as end 0 or 1 of the link with this id. The context outlives the link, and
  // issues no other work until poll_link returns `done`.
  Status (*create_link)(Context* context, const LinkId* id, int32_t end, Link** link) = nullptr;
  // Returns how far the link is, without waiting. Fails if it cannot be connected, or if a transfer failed.
  Status (*poll_link)(Link* link, LinkState* state) = nullptr;
  // Begin to transfer rows of f32, after the work issued to the context so far. Call poll_link until it
  // returns `issued` or `done`. The other end must receive exactly what this one sends, in the same order.
  Status (*send_by_link)(Link* link, const float* device_rows, int32_t rows, int32_t columns) = nullptr;
  Status (*receive_by_link)(Link* link, float* device_rows, int32_t rows, int32_t columns) = nullptr;
  // Frees the link in any state, without the other end. Transfers that are not over end at once, with rows of
  // any content.
  void (*release_link)(Link* link) = nullptr;

  // Primitives.
  Status (*embed)(Context* context, const EmbedParams* params) = nullptr;
  Status (*norm)(Context* context, const NormParams* params) = nullptr;
  Status (*linear)(Context* context, const LinearParams* params) = nullptr;
  Status (*rope_angles)(Context* context, const RopeAnglesParams* params) = nullptr;
  Status (*append_kv)(Context* context, const AppendKvParams* params) = nullptr;
  Status (*attention)(Context* context, const AttentionParams* params) = nullptr;
  Status (*activation)(Context* context, const ActivationParams* params) = nullptr;
  Status (*scale_logits)(Context* context, float* logits, int64_t count, float scale,
                         float softcap) = nullptr;
  Status (*route)(Context* context, const RouteParams* params) = nullptr;
  Status (*expert_linear)(Context* context, const ExpertLinearParams* params) = nullptr;
  Status (*combine)(Context* context, const CombineParams* params) = nullptr;
  Status (*expand_latent)(Context* context, const ExpandLatentParams* params) = nullptr;
  Status (*select_keys)(Context* context, const SelectKeysParams* params) = nullptr;
  Status (*row_op)(Context* context, const RowOpParams* params) = nullptr;
  Status (*mix_streams)(Context* context, const MixStreamsParams* params) = nullptr;
  Status (*collapse_streams)(Context* context, const CollapseStreamsParams* params) = nullptr;
  Status (*expand_streams)(Context* context, const ExpandStreamsParams* params) = nullptr;
  Status (*copy_page)(Context* context, const CopyPageParams* params) = nullptr;
  // Layers with a recurrent state (state_params.h).
  Status (*convolve)(Context* context, const ConvolveParams* params) = nullptr;
  Status (*delta_rule)(Context* context, const DeltaRuleParams* params) = nullptr;
  Status (*state_space)(Context* context, const StateSpaceParams* params) = nullptr;
  Status (*linear_attention)(Context* context, const LinearAttentionParams* params) = nullptr;
  Status (*selective_scan)(Context* context, const SelectiveScanParams* params) = nullptr;
  Status (*gated_norm)(Context* context, const GatedNormParams* params) = nullptr;
  Status (*copy_state)(Context* context, const CopyStateParams* params) = nullptr;
  Status (*sample)(Context* context, const SampleParams* params) = nullptr;
  // Waits for the last call to sample that was given `outcomes`, one of the last two calls of all, but not
  // for later steps. Earlier calls with the same outcomes are discarded. Rows of earlier calls to read_rows
  // are complete then, and so are outcomes that synchronize has filled in. Needs kCapabilityFollowingSteps.
  Status (*wait_for_draws)(Context* context, const SampleOutcome* outcomes) = nullptr;

  // Composites.
  Status (*attention_block)(Context* context, const AttentionBlockParams* params) = nullptr;
  Status (*mlp_block)(Context* context, const MlpBlockParams* params) = nullptr;
  Status (*choose_experts)(Context* context, const ExpertChoiceParams* params) = nullptr;
  Status (*head)(Context* context, const HeadParams* params) = nullptr;

  // Peak rates of the device, measured now; concurrent work lowers them. Benchmarks report the speed of a
  // step as a fraction of them. measure_read_rate returns the bytes per second at which the whole device
  // repeatedly reads a buffer of working_set_bytes (capped at some hundreds of MiB, more than any cache
  // holds).
  Status (*measure_read_rate)(Device* device, uint64_t working_set_bytes, double* bytes_per_second) = nullptr;
  // Returns the multiplications and additions per second of the kind that quantized products use.
  Status (*measure_op_rate)(Device* device, double* ops_per_second) = nullptr;
};

// Prepares one matrix by itself.
inline Status prepare_weight(const KernelTable& table, Device* device, const WeightSource* parts,
                             int32_t num_parts, Weight** weight) {
  const MatrixSource matrix = {parts, num_parts};
  return table.prepare_weights(device, &matrix, 1, weight);
}

// First member of every Context of every backend: the table that the context runs on.
struct ContextHeader {
  const KernelTable* table = nullptr;
};

// Entry point of a backend library. A plug-in exports one C symbol, `quire_backend_entry`, of type
// BackendEntry.
struct Backend {
  uint32_t abi = kBackendAbi;
  const char* name = "";  // "cpu", "cuda"
  // Returns the number of usable devices. Returns 0 and writes the reason to `why` if there is none. Never
  // fails otherwise.
  int32_t (*num_devices)(char* why, size_t size) = nullptr;
  Status (*open_device)(int32_t index, const DeviceOptions* options, Device** device) = nullptr;
  void (*close_device)(Device* device) = nullptr;
  const KernelTable* (*table)(const Device* device) = nullptr;
  Status (*device_info)(const Device* device, DeviceInfo* info) = nullptr;
};

using BackendEntry = const Backend* (*)(uint32_t abi);

}  // namespace quire::kernels
