// Experts that hold heads of attention: queries and outputs are theirs, keys and values are shared.
#pragma once

#include "core/layers/expert_matrices.h"
#include "core/layers/router.h"

namespace quire {

struct HeadExpertsLayer {
  RouterLayer router;
  ExpertMatrices query;
  ExpertMatrices output;
  DeviceBuffer output_bias;

  // Chooses experts for `input`, and writes their queries, and the keys and values that the matrix `keys`
  // gives, to workspace.qkv.
  void make_qkv(const ForwardPass& pass, const kernels::AttentionSpec& attention, const PreparedWeight& keys,
                const void* input) const;
  // Adds what the chosen experts make of workspace.attention to the residual stream of `hidden` columns.
  void add_results(const ForwardPass& pass, int32_t hidden) const;
};

void build(const HeadExpertsPart& part, LayerBuilder& builder, HeadExpertsLayer& layer);
void needs(const HeadExpertsPart& part, const kernels::AttentionSpec& attention, Needs& all);
void each_weight(const HeadExpertsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const HeadExpertsPart& part);

}  // namespace quire
