// Mamba-1 as the mixer of a layer.
#pragma once

#include <optional>

#include "core/layers/state_mixer.h"

namespace quire {

struct Mamba1Layer : kernels::SelectiveScanSpec {
  PreparedWeight in;      // x, z
  ConvLayer conv;         // of x
  PreparedWeight select;  // from the convolved x: dt of low rank, B, C
  int32_t step_rank = 0;
  std::optional<NormLayer> step_norm;
  std::optional<NormLayer> b_norm;
  std::optional<NormLayer> c_norm;
  PreparedWeight step;  // from low rank to all channels, with its bias
  DeviceBuffer a_log;   // [state_dim, channels]
  DeviceBuffer skip;
  ResultLayer out;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;

 private:
  // Computes dt, B and C from the convolved x in workspace.qkv.
  void choose(const ForwardPass& pass, kernels::SelectiveScanParams& params) const;
};

void build(const Mamba1Part& part, LayerBuilder& builder, Mamba1Layer& layer);
void needs(const Mamba1Part& part, Needs& all);
void each_weight(const Mamba1Layer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const Mamba1Part& part);

}  // namespace quire
