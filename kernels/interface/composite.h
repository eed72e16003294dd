// Composite operations built from a table's primitives, for backends without fused kernels, and the pieces
// that fused kernels share with them.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Work memory for the end of a block.
struct EndSpace {
  float* projected = nullptr;  // [rows, N] f32, needed if there is a norm
  float* slice = nullptr;  // [rows, columns of a shard] f32, needed if there is a norm and columns are split
};
EndSpace end_space(const Workspace& space);

// The last product of a block, without its output. A backend whose product takes more than LinearParams gives
// a function that runs it, with its own description `form` of how the input lies.
struct BlockProduct {
  LinearParams params;
  Status (*multiply)(Context* context, const LinearParams& params, const void* form) = nullptr;  // or linear
  const void* form = nullptr;
};

// Computes the end of a block: residual += matrix(input), or residual += norm(matrix(input)). With tensor
// parallelism a shard's matrix computes that shard's columns, and an all-gather collects them; every number
// is computed by the same operations as without shards.
Status finish_block(Context* context, const BlockProduct& product, const BlockEnd& end,
                    const EndSpace& space);

// Computes the end of the head: gathers the logits of all shards and scales them. `own_logits` are those of
// this shard, or workspace.logits without shards.
Status finish_head(Context* context, const HeadParams& params, const float* own_logits);

// Gathers the columns that each shard has computed.
Status gather_rows(Context* context, const ColumnSplit& columns, const void* slice, int32_t rows, DType dtype,
                   void* output);
// Gathers the columns of the other shards in rows that already have those of this shard.
Status gather_in_place(Context* context, const ColumnSplit& columns, int32_t rows, float* target);
// Returns the rows in which the results of a token are gathered; the results must be split.
int32_t gathered_rows(const AttentionBlockParams& params);
// Gather what the last matrix of a block reads, from Scratch::slice to its place in the workspace. Do nothing
// without shards. `place`: see AllGatherParams.
Status gather_results(Context* context, const AttentionBlockParams& params, const int32_t* place);
Status gather_activated(Context* context, const MlpBlockParams& params);

// Returns the parameters of a product, without its output.
LinearParams product_of(const Weight* matrix, const void* input, int32_t rows);
// Return the parameters of the operations that a block or a choice is made of.
AppendKvParams append_params(const AttentionBlockParams& params);
AttentionParams attention_params(const AttentionBlockParams& params);
ActivationParams activation_params(const MlpBlockParams& params);
RouteParams route_params(const ExpertChoiceParams& params);

Status composed_attention_block(Context* context, const AttentionBlockParams* params);
Status composed_mlp_block(Context* context, const MlpBlockParams* params);
Status composed_choose_experts(Context* context, const ExpertChoiceParams* params);
Status composed_head(Context* context, const HeadParams* params);

}  // namespace quire::kernels
