// What came from DeepSeek and others have taken up: latent attention, its experts, and its choice of keys.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Keys and values of all layers out of a low-rank product; queries too where q_lora_rank says so.
void make_latent(ModelReader& reader);

// Experts by sigmoid scores with a bias for the choice, and a shared one.
ExpertsPart deepseek_experts(ModelReader& reader, int32_t layer);

// A layer that chooses the keys that it attends to.
void add_indexer(ModelReader& reader, LayerSpec& layer, int32_t index, kernels::RopeStyle rope);

}  // namespace quire::families
