// The composite operations made of a table's own primitives: what a backend uses until it fuses them.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// Where the end of a block works.
struct EndSpace {
  float* projected = nullptr;  // [rows, N] f32, needed where there is a norm
  float* slice = nullptr;      // [rows, columns of a shard] f32, needed where columns are split
};

// The end of a block: residual += matrix(input), or residual += norm(matrix(input)). A shard's matrix gives
// its own columns, which all shards gather: each number is made by the same operations as without shards.
Status finish_block(Context* context, const LinearParams& product, const BlockEnd& end,
                    const EndSpace& space);

// Gathers the columns that each shard has made.
Status gather_rows(Context* context, const ColumnSplit& columns, const void* slice, int32_t rows, DType dtype,
                   void* output);

// The choice that follows the router's product.
RouteParams route_params(const ExpertChoiceParams& params);

Status composed_attention_block(Context* context, const AttentionBlockParams* params);
Status composed_mlp_block(Context* context, const MlpBlockParams* params);
Status composed_choose_experts(Context* context, const ExpertChoiceParams* params);
Status composed_head(Context* context, const HeadParams* params);

}  // namespace quire::kernels
