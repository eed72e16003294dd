// Mixture of attention heads (JetMoE): each expert has its own queries and outputs; keys and values are
// shared.
#pragma once

#include "core/layers/expert_matrices.h"
#include "core/layers/router.h"

namespace quire {

struct HeadExpertsLayer {
  RouterLayer router;
  ExpertMatrices query;
  ExpertMatrices output;
  DeviceBuffer output_bias;

  // Chooses experts for `input`. Writes their queries, and keys and values computed with the matrix `keys`,
  // to workspace.qkv.
  void make_qkv(const ForwardPass& pass, const kernels::AttentionSpec& attention, const PreparedWeight& keys,
                const void* input) const;
  // Multiplies workspace.attention with the output matrices of the chosen experts, and adds the weighted sum
  // to the residual stream, which has `hidden` columns.
  void add_results(const ForwardPass& pass, int32_t hidden) const;
};

void build(const HeadExpertsPart& part, LayerBuilder& builder, HeadExpertsLayer& layer);
void needs(const HeadExpertsPart& part, const kernels::AttentionSpec& attention, Needs& all);
void each_weight(const HeadExpertsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const HeadExpertsPart& part);

}  // namespace quire
