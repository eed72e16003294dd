// RG-LRU as the mixer of a layer (RecurrentGemma).
#pragma once

#include <vector>

#include "core/layers/state_mixer.h"

namespace quire {

struct RgLruLayer : kernels::SelectiveScanSpec {
  PreparedWeight in;  // x, y
  ConvLayer conv;     // of x
  // For each block of channels: the inputs of the step and of the gate of x, side by side.
  std::vector<PreparedWeight> gates;
  DeviceBuffer step_bias;
  DeviceBuffer input_bias;
  DeviceBuffer a_log;  // ln(8 softplus(decay))
  ResultLayer out;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;

 private:
  // Computes the inputs of the step and of the gate from the convolved x in workspace.qkv.
  void make_gates(const ForwardPass& pass, kernels::SelectiveScanParams& params) const;
};

void build(const RgLruPart& part, LayerBuilder& builder, RgLruLayer& layer);
void needs(const RgLruPart& part, Needs& all);
void each_weight(const RgLruLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const RgLruPart& part);

}  // namespace quire
