// The composite operations made of a table's own primitives: what a backend uses until it fuses them.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

Status composed_attention_block(Context* context, const AttentionBlockParams* params);
Status composed_mlp_block(Context* context, const MlpBlockParams* params);
Status composed_head(Context* context, const HeadParams* params);

}  // namespace quire::kernels
