// Parts introduced by DeepSeek and used by other families: multi-head latent attention (MLA), MoE routing and
// the indexer of sparse attention.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Turns attention of all layers into MLA: low-rank keys and values, and low-rank queries if q_lora_rank is
// set.
void make_latent(ModelReader& reader);

// Returns experts routed by sigmoid scores with a bias for the choice, and a shared expert.
ExpertsPart deepseek_experts(ModelReader& reader, int32_t layer);

// Adds an indexer, which chooses the keys that the layer attends to.
void add_indexer(ModelReader& reader, LayerSpec& layer, int32_t index, kernels::RopeStyle rope);

}  // namespace quire::families
