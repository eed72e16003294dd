// The gated delta rule as the mixer of a layer: GDN with a decay for each head, KDA with one for each
// channel.
#pragma once

#include <optional>

#include "core/layers/state_mixer.h"

namespace quire {

// hidden += out(gated_norm(rule(conv(in(norm(hidden)))))).
struct DeltaLayer : kernels::DeltaRuleSpec {
  PreparedWeight in;     // q, k, v, and the gate unless it has a path of its own
  PreparedWeight rates;  // b, and the input of the decay unless it has a path of its own
  int32_t num_rates = 0;
  std::optional<LowRankLayer> decay_path;
  std::optional<LowRankLayer> gate_path;
  ConvLayer conv;
  DeviceBuffer a_log;
  DeviceBuffer dt_bias;
  DeviceBuffer norm_weight;
  ResultLayer out;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const DeltaPart& part, LayerBuilder& builder, DeltaLayer& layer);
void needs(const DeltaPart& part, Needs& all);
void each_weight(const DeltaLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const DeltaPart& part);

}  // namespace quire
