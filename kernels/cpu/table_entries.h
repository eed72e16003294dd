// The entries of the kernel table, one declaration each; grouped by the file that defines them.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels::cpu_entries {

// memory.cpp
void memory_use(const Device* device, MemoryUse* use);
uint64_t taken_bytes(uint64_t bytes);
Status allocate(Device* device, size_t bytes, void** memory);
void release(Device* device, void* memory);
Status reserve(Device* device, size_t bytes, void** range);
Status map(Device* device, void* range, size_t offset, size_t bytes);
void unmap(Device* device, void* range, size_t offset);
void unreserve(Device* device, void* range);
void trim(Device* device);
Status upload(Device* device, void* target, const void* host, size_t bytes);
Status download(Device* device, void* host, const void* source, size_t bytes);
Status fill(Device* device, void* target, uint8_t byte, size_t bytes);
Status copy_page(Context* context, const CopyPageParams* params);

// prepare.cpp
Status prepare_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, Weight** weights);
Status prepare_table(Device* device, const TableSource* source, Weight** weight);
void release_weight(Device* device, Weight* weight);
uint64_t weight_bytes(const Weight* weight);
// Without kCapabilityParkedWeights: device memory is host memory already.
Status copy_weight(Device* device, const Weight* weight);
uint64_t park_weight(Device* device, const Weight* weight);
Status bring_weight(Device* device, const Weight* weight);
Status plan_weights(Device* device, const MatrixSource* matrices, int32_t num_matrices, uint64_t* bytes);
Status plan_table(Device* device, const TableSource* source, uint64_t* bytes);

// packed_experts.cpp
Status describe_weight(const Weight* weight, PackedWeight* described);
Status copy_pieces(Context* context, const CopyPiece* pieces, int32_t count);
Status multiply_packed_experts(Context* context, const PackedExpertsParams* params);
Status finish_slot_experts(Context* context, float* outputs);

// dequantize.cpp
Status dequantize(Device* device, const Weight* weight, float* host);

// context.cpp
Status create_context(Device* device, const ContextLimits* limits, Context** context);
void release_context(Context* context);
Status plan_context(Device* device, const ContextLimits* limits, MemoryUse* use);
Status synchronize(Context* context);
Status bind_batch(Context* context, const BatchView* host, BatchView* device);
Status begin_step(Context* context, const BatchView* batch, StepAction* action);
Status end_step(Context* context, StepAction* action);
Status pause_step(Context* context, int32_t* paused);
Status resume_step(Context* context);
Status read_rows(Context* context, const float* device_rows, int32_t rows, int32_t columns, float* host);
Status write_rows(Context* context, const float* host, int32_t rows, int32_t columns, float* device_rows);
Status receive_rows(Context* context, float* device_rows, Context* from, const float* from_rows, int32_t rows,
                    int32_t columns);

// communicator.cpp
int32_t reaches(Device* device, Device* other);
Status connect_shards(Context* const* contexts, int32_t num_shards, Communicator** communicator);
void release_communicator(Communicator* communicator);
Status all_gather(Context* context, const AllGatherParams* params);
void interrupt_shards(Communicator* communicator);
void resume_shards(Communicator* communicator);

// elementwise.cpp
Status embed(Context* context, const EmbedParams* params);
Status norm(Context* context, const NormParams* params);
Status rope_angles(Context* context, const RopeAnglesParams* params);
Status activation(Context* context, const ActivationParams* params);
Status scale_logits(Context* context, float* logits, int64_t count, float scale, float softcap);
Status sample(Context* context, const SampleParams* params);
Status wait_for_draws(Context* context, const SampleOutcome* outcomes);

// experts.cpp
Status route(Context* context, const RouteParams* params);
Status expert_linear(Context* context, const ExpertLinearParams* params);
Status combine(Context* context, const CombineParams* params);

// rows.cpp
Status row_op(Context* context, const RowOpParams* params);
Status expand_latent(Context* context, const ExpandLatentParams* params);
Status select_keys(Context* context, const SelectKeysParams* params);
Status mix_streams(Context* context, const MixStreamsParams* params);
Status collapse_streams(Context* context, const CollapseStreamsParams* params);
Status expand_streams(Context* context, const ExpandStreamsParams* params);

// state/operations.cpp
Status convolve(Context* context, const ConvolveParams* params);
Status delta_rule(Context* context, const DeltaRuleParams* params);
Status state_space(Context* context, const StateSpaceParams* params);
Status linear_attention(Context* context, const LinearAttentionParams* params);
Status selective_scan(Context* context, const SelectiveScanParams* params);
Status gated_norm(Context* context, const GatedNormParams* params);
Status copy_state(Context* context, const CopyStateParams* params);

// linear.cpp
Status linear(Context* context, const LinearParams* params);

// machine_limits.cpp
Status measure_read_rate(Device* device, uint64_t working_set_bytes, double* bytes_per_second);
Status measure_op_rate(Device* device, double* ops_per_second);

// attention.cpp
Status append_kv(Context* context, const AppendKvParams* params);
Status attention(Context* context, const AttentionParams* params);

}  // namespace quire::kernels::cpu_entries
