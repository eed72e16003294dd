// The composite operations made of a table's own primitives: what a backend uses until it fuses them.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

// The end of a block: residual += matrix(input), or residual += norm(matrix(input)). `projected` is room for
// [rows, N] f32, needed where there is a norm.
Status finish_block(Context* context, const LinearParams& product, const BlockEnd& end, float* projected);

Status composed_attention_block(Context* context, const AttentionBlockParams* params);
Status composed_mlp_block(Context* context, const MlpBlockParams* params);
Status composed_head(Context* context, const HeadParams* params);

}  // namespace quire::kernels
