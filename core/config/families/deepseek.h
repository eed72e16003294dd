// Parts introduced by DeepSeek and used by other families: multi-head latent attention (MLA), MoE routing and
// the indexer of sparse attention.
#pragma once

#include "core/config/families/families.h"

namespace quire::families {

// Sizes of MLA that a family's class defaults to; 0: the field is required, or for query_rank: queries are
// computed by one matrix.
struct LatentSizes {
  int32_t query_rank = 0;
  int32_t rank = 0;
  int32_t rest = 0;    // elements of a query or key head that are not rotated
  int32_t rotary = 0;  // elements that are
  int32_t value = 0;
  bool has_rotary = true;  // false: no element is rotated
};

// Turns attention of all layers into MLA: low-rank keys and values, and low-rank queries if q_lora_rank is
// set.
void make_latent(ModelReader& reader, const LatentSizes& defaults = {});

// Returns experts routed by sigmoid scores with a bias for the choice, and a shared expert.
ExpertsPart deepseek_experts(ModelReader& reader, int32_t layer);

// Clamps the gate and the other input of a SwiGLU: the gate to at most `limit`, the other to -limit..limit.
void clamp_swiglu(MlpPart& part, float limit);

// Adds an indexer, which chooses the keys that the layer attends to.
void add_indexer(ModelReader& reader, LayerSpec& layer, int32_t index, kernels::RopeStyle rope);

}  // namespace quire::families
