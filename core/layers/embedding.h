// Token ids into the residual stream, and the rotary angles that all layers of a step share.
#pragma once

#include "core/layers/forward_pass.h"

namespace quire {

struct EmbeddingLayer {
  PreparedWeight table;  // [vocabulary, hidden]
  float scale = 1.0f;

  void forward(const ForwardPass& pass) const;
};

struct RotaryLayer {
  DeviceBuffer inv_freq;   // [rotary_dim / 2] f32
  int32_t rotary_dim = 0;  // 0: the model has no rotary embedding
  float magnitude = 1.0f;

  void forward(const ForwardPass& pass) const;
};

}  // namespace quire
