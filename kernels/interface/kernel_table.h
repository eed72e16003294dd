// The one interface between the engine and a backend: a table of functions, every entry filled.
//
// A backend fills the table itself, entry by entry; for the composite entries it may use the functions of
// composite.h, which are made of the primitives. What a backend lacks returns Status::unsupported and is
// told by a missing capability bit. Composites exist so that a backend can fuse them without the engine
// knowing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/op_params.h"
#include "kernels/interface/types.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

// Changes whenever any struct of this folder does; a plug-in of another number is refused.
inline constexpr uint32_t kBackendAbi = 21;

enum Capability : uint64_t {
  kCapabilityDeviceSampling = 1U << 0,
  kCapabilityStepReplay = 1U << 1,  // begin_step may answer `replayed`
  kCapabilityKvFp8 = 1U << 2,
  kCapabilityKvQuantized = 1U << 3,     // q8 and q4
  kCapabilityDeterministic = 1U << 4,   // results never depend on the batch
  kCapabilityFollowingSteps = 1U << 5,  // see wait_for_draws
  kCapabilityShards = 1U << 6,          // connect_shards and what follows it
  kCapabilityParkedWeights = 1U << 7,   // copy_weight, park_weight, bring_weight
};

struct DeviceInfo {
  char name[128] = {};    // "AMD EPYC ..., avx512", "NVIDIA H200"
  char detail[256] = {};  // driver, compute capability, instruction set
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  int32_t num_units = 0;  // threads, or multiprocessors
};

struct DeviceOptions {
  int32_t num_threads = 0;  // CPU: 0 takes all the process may run on
  int32_t deterministic = 1;
  uint64_t memory_limit_bytes = 0;  // of device memory; more is out_of_memory; 0: what there is
};

// Sizes everything a context needs, so that nothing is allocated later.
struct ContextLimits {
  int32_t max_tokens = 0;  // T of any step
  int32_t max_sequences = 0;
  int32_t max_logit_rows = 0;
  int32_t max_sample_edits = 0;  // of one call to sample
  int32_t max_pages_per_sequence = 0;
  int32_t num_page_tables = 1;
  int32_t max_columns = 0;     // the largest K or N of any matrix but the head
  int32_t expert_columns = 0;  // the largest K + N of a matrix of an expert; 0: there are none
  int32_t vocab_size = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t handed_columns = 0;  // of rows that write_rows brings or read_rows takes beside the logits; 0: none
};

enum class StepAction : int32_t {
  run = 0,       // issue the operations of the step, then end_step
  replayed = 1,  // the same operations were recorded before and are running; skip to the results
};

struct KernelTable {
  uint32_t abi = kBackendAbi;
  uint64_t capabilities = 0;
  uint64_t mechanisms = 0;  // of enum Mechanism: what its operations obey
  DType activation_dtype = DType::f32;
  const char* name = "";  // "cpu-scalar", "cpu-avx2", "cpu-avx512", "cuda"
  uint64_t map_unit = 0;  // bytes, of what map is given; 0: addresses cannot be reserved

  // What all entries have taken on this device. Any thread.
  void (*memory_use)(const Device* device, MemoryUse* use) = nullptr;

  // Memory. Addresses are aligned to 256 bytes; the content is undefined. release(nullptr) is a no-op.
  // taken_bytes: what one piece of so many bytes takes of the device, in whole pages where the device has
  // them; so is all that memory_use counts.
  uint64_t (*taken_bytes)(uint64_t bytes) = nullptr;
  Status (*allocate)(Device* device, size_t bytes, void** memory) = nullptr;
  void (*release)(Device* device, void* memory) = nullptr;
  // Synchronous copies, for loading and tests.
  Status (*upload)(Device* device, void* target, const void* host, size_t bytes) = nullptr;
  Status (*download)(Device* device, void* host, const void* source, size_t bytes) = nullptr;
  Status (*fill)(Device* device, void* target, uint8_t byte, size_t bytes) = nullptr;

  // Memory that grows and shrinks at fixed addresses. reserve takes addresses alone; map gives memory to a
  // piece of them that has none, unmap takes away what one call to map gave at that offset. Offsets and bytes
  // are whole multiples of map_unit; what is mapped is what memory_use counts. The caller sees to it that no
  // work reaches a piece that is unmapped. unreserve takes the rest away with the addresses.
  Status (*reserve)(Device* device, size_t bytes, void** range) = nullptr;
  Status (*map)(Device* device, void* range, size_t offset, size_t bytes) = nullptr;
  void (*unmap)(Device* device, void* range, size_t offset) = nullptr;
  void (*unreserve)(Device* device, void* range) = nullptr;

  // Gives back what is kept between calls so that many loads of weights are fast.
  void (*trim)(Device* device) = nullptr;

  // Weights. A matrix may have several parts that share their input (q, k, v; gate, up): its output is
  // theirs side by side. Matrices that are prepared together may lie in one piece of memory, which then goes
  // with the last of them. Any thread; nothing stays taken on failure, and every weight is null then.
  Status (*prepare_weights)(Device* device, const MatrixSource* matrices, int32_t num_matrices,
                            Weight** weights) = nullptr;
  Status (*prepare_table)(Device* device, const TableSource* source, Weight** weight) = nullptr;
  void (*release_weight)(Device* device, Weight* weight) = nullptr;
  uint64_t (*weight_bytes)(const Weight* weight) = nullptr;  // of device memory
  // A weight that leaves its device for host memory, from where it comes back as it was and to where it was:
  // recorded steps stay valid. The piece of memory goes that matrices prepared together share; small pieces
  // stay. With kCapabilityParkedWeights. Any thread.
  // copy_weight makes the host's copy, which stays until the weight is released: the next time nothing is
  // copied. All that can fail on the way out is here, so that a model leaves whole or not at all;
  // out_of_memory: of the host.
  // park_weight, after that: nothing computes with it until bring_weight. Returns the bytes that the device
  // gets back, of which the host's copy takes as many; 0 where it is away already, or stays.
  // bring_weight takes the memory and starts the copy; what reads the weight waits for it by itself. Nothing
  // where it is there. On failure it stays away.
  Status (*copy_weight)(Device* device, const Weight* weight) = nullptr;
  uint64_t (*park_weight)(Device* device, const Weight* weight) = nullptr;
  Status (*bring_weight)(Device* device, const Weight* weight) = nullptr;
  // What weight_bytes will be of each, told by what lays the matrix out. taken_bytes of the sum is what those
  // that are prepared together take. Of a source it needs all but the codes, scales and values: pointers to
  // those may be null.
  Status (*plan_weights)(Device* device, const MatrixSource* matrices, int32_t num_matrices,
                         uint64_t* bytes) = nullptr;
  Status (*plan_table)(Device* device, const TableSource* source, uint64_t* bytes) = nullptr;
  // The matrix as [K, N] f32 in host memory: rows in the order of the input features, columns in that of the
  // outputs, prescale applied, each element rounded to f16 where the format is quantized. For tests,
  // conversion and inspection.
  Status (*dequantize)(Device* device, const Weight* weight, float* host) = nullptr;

  // Contexts.
  Status (*create_context)(Device* device, const ContextLimits* limits, Context** context) = nullptr;
  void (*release_context)(Context* context) = nullptr;
  // What create_context will take.
  Status (*plan_context)(Device* device, const ContextLimits* limits, MemoryUse* use) = nullptr;
  Status (*synchronize)(Context* context) = nullptr;  // waits for all work of the context

  // One step: bind_batch, begin_step, the operations, end_step, then read_logits or sample, synchronize.
  // end_step answers `run` where the operations are to be issued once more, begin_step first: they were to be
  // recorded, and there is no memory for that. Else it answers `replayed`.
  // bind_batch places the arrays of `host` where the device can read them and returns their view.
  // With kCapabilityFollowingSteps a step may be issued after the draws of another before these are waited
  // for: token i is then what row drawn_rows[i] of the last call to sample drew (any token where that is
  // none), and token_ids[i] where that row is -1.
  Status (*bind_batch)(Context* context, const BatchView* host, BatchView* device) = nullptr;
  Status (*begin_step)(Context* context, const BatchView* batch, StepAction* action) = nullptr;
  Status (*end_step)(Context* context, StepAction* action) = nullptr;
  // Between begin_step and end_step: waits until what was issued of the step is computed, so that another
  // context may have the device, or answers `paused` 0 at once where the step is recorded. With resume_step
  // what comes of the step goes after what others have issued by then.
  Status (*pause_step)(Context* context, int32_t* paused) = nullptr;
  Status (*resume_step)(Context* context) = nullptr;
  // What was recorded of steps is not replayed any more: their weights lie elsewhere, or are others. Waits
  // for the work of the context.
  Status (*forget_steps)(Context* context) = nullptr;
  // Copies `rows` rows of `columns` f32 to host memory; complete once synchronize returns.
  Status (*read_rows)(Context* context, const float* device_rows, int32_t rows, int32_t columns,
                      float* host) = nullptr;

  // The residual stream's way from device to device, outside of begin_step and end_step. Both are ordered
  // before later work of `context` and wait for no more than they must.
  // Rows from host memory, which may change once this returns.
  Status (*write_rows)(Context* context, const float* host, int32_t rows, int32_t columns,
                       float* device_rows) = nullptr;
  // Rows from the memory of another context of this backend, as its work so far leaves them; its later work
  // does not overtake the copy.
  Status (*receive_rows)(Context* context, float* device_rows, Context* from, const float* from_rows,
                         int32_t rows, int32_t columns) = nullptr;

  // Shards. Contexts of one backend, shard r being contexts[r], whose steps go on side by side, each on a
  // thread of its own. Each issues the same gathers in the same order. Contexts of one device share its
  // threads out. The contexts outlive the communicator.
  Status (*connect_shards)(Context* const* contexts, int32_t num_shards,
                           Communicator** communicator) = nullptr;
  void (*release_communicator)(Communicator* communicator) = nullptr;
  // Every shard's columns of a result, side by side in the order of shards. `input` may change once this
  // returns.
  Status (*all_gather)(Context* context, const AllGatherParams* params) = nullptr;
  // For a shard that cannot go on: the gathers of all shards, those that wait and those that come, answer
  // Status::interrupted until resume_shards. Any thread may interrupt; resume while none of them works.
  void (*interrupt_shards)(Communicator* communicator) = nullptr;
  void (*resume_shards)(Communicator* communicator) = nullptr;

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
  Status (*copy_page)(Context* context, const CopyPageParams* params) = nullptr;
  Status (*sample)(Context* context, const SampleParams* params) = nullptr;
  // Waits for the call to sample that was given `outcomes`, the last or the one before, and for no step
  // issued after it; with it come the rows that read_rows was asked for before it. Whatever synchronize has
  // waited for meanwhile is there. Needs kCapabilityFollowingSteps.
  Status (*wait_for_draws)(Context* context, const SampleOutcome* outcomes) = nullptr;

  // Composites.
  Status (*attention_block)(Context* context, const AttentionBlockParams* params) = nullptr;
  Status (*mlp_block)(Context* context, const MlpBlockParams* params) = nullptr;
  Status (*choose_experts)(Context* context, const ExpertChoiceParams* params) = nullptr;
  Status (*head)(Context* context, const HeadParams* params) = nullptr;

  // What the device does at best, measured now; work in progress makes it less. For benchmarks: the speed of
  // a step is told as a share of these. Bytes per second that the whole device reads over and over from a
  // buffer of working_set_bytes (some hundreds of MiB at most are taken, enough to lie in no cache).
  Status (*measure_read_rate)(Device* device, uint64_t working_set_bytes, double* bytes_per_second) = nullptr;
  // Multiplications and additions per second of the kind that quantized products are made of.
  Status (*measure_op_rate)(Device* device, double* ops_per_second) = nullptr;
};

// One matrix by itself.
inline Status prepare_weight(const KernelTable& table, Device* device, const WeightSource* parts,
                             int32_t num_parts, Weight** weight) {
  const MatrixSource matrix = {parts, num_parts};
  return table.prepare_weights(device, &matrix, 1, weight);
}

// The table a context runs on; every Context of every backend starts with this struct.
struct ContextHeader {
  const KernelTable* table = nullptr;
};

// What a backend library offers. A plug-in exports one C symbol, `quire_backend_entry`, of type BackendEntry.
struct Backend {
  uint32_t abi = kBackendAbi;
  const char* name = "";  // "cpu", "cuda"
  // Number of usable devices. 0 with the reason in `why` where there is none. Never fails otherwise.
  int32_t (*num_devices)(char* why, size_t size) = nullptr;
  Status (*open_device)(int32_t index, const DeviceOptions* options, Device** device) = nullptr;
  void (*close_device)(Device* device) = nullptr;
  const KernelTable* (*table)(const Device* device) = nullptr;
  Status (*device_info)(const Device* device, DeviceInfo* info) = nullptr;
};

using BackendEntry = const Backend* (*)(uint32_t abi);

}  // namespace quire::kernels
