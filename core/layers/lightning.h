// Lightning attention as the mixer of a layer: linear attention with a constant decay for each head.
#pragma once

#include "core/layers/state_mixer.h"

namespace quire {

struct LightningLayer : kernels::LinearAttentionSpec {
  PreparedWeight in;  // q, k, v, gate
  DeviceBuffer slopes;
  DeviceBuffer norm_weight;
  ResultLayer out;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const LightningPart& part, LayerBuilder& builder, LightningLayer& layer);
void needs(const LightningPart& part, Needs& all);
void each_weight(const LightningLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const LightningPart& part);

}  // namespace quire
