// Rotary angles (RoPE) for the positions of a step, shared by all layers of a stage.
#pragma once

#include "core/layers/block.h"

namespace quire {

struct RotaryLayer {
  DeviceBuffer inv_freq;        // [rotary_dim / 2] f32
  DeviceBuffer short_inv_freq;  // LongRoPE: for contexts up to short_context tokens; otherwise empty
  int32_t short_context = 0;
  int32_t rotary_dim = 0;
  float magnitude = 1.0f;
  float short_magnitude = 1.0f;

  void forward(const ForwardPass& pass, const RopeTables& tables) const;
};

void build(const RopeSpec& part, const LayerBuilder& builder, RotaryLayer& layer);
void each_weight(const RotaryLayer& layer, WeightVisitor& visitor);

}  // namespace quire
