// Experts as the Qwen families have them.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Returns the experts of a layer, whose weights are not normalised, and the gated shared expert.
ExpertsPart qwen_experts(ModelReader& reader, int32_t layer);

// Replaces the dense part of the layers that have experts: every decoder_sparse_step-th, except those in
// mlp_only_layers. `is_normalised` is the default of norm_topk_prob.
void add_qwen_experts(ModelReader& reader, bool is_normalised);

}  // namespace quire::families
