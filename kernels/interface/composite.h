// Composite operations built from a table's primitives. A backend uses them until it has fused kernels.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Work memory for the end of a block.
struct EndSpace {
  float* projected = nullptr;  // [rows, N] f32, needed if there is a norm
  float* slice = nullptr;      // [rows, columns of a shard] f32, needed if columns are split
};

// Computes the end of a block: residual += matrix(input), or residual += norm(matrix(input)). With tensor
// parallelism a shard's matrix computes that shard's columns, and an all-gather collects them; every number
// is computed by the same operations as without shards.
Status finish_block(Context* context, const LinearParams& product, const BlockEnd& end,
                    const EndSpace& space);

// Gathers the columns that each shard has computed.
Status gather_rows(Context* context, const ColumnSplit& columns, const void* slice, int32_t rows, DType dtype,
                   void* output);

// Returns the parameters of the expert choice that follows the router's product.
RouteParams route_params(const ExpertChoiceParams& params);

Status composed_attention_block(Context* context, const AttentionBlockParams* params);
Status composed_mlp_block(Context* context, const MlpBlockParams* params);
Status composed_choose_experts(Context* context, const ExpertChoiceParams* params);
Status composed_head(Context* context, const HeadParams* params);

}  // namespace quire::kernels
