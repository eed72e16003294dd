// Per-layer embedding of a token, added at the end of the layer, as in Gemma 3n and 4.
#pragma once

#include "core/layers/streams.h"

namespace quire {

struct LayerInputLayer {
  PreparedWeight gate;
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  PreparedWeight projection;
  NormLayer norm;
  int32_t columns = 0;
  int32_t layer_idx = 0;
  int32_t num_layers = 0;

  // Adds the embedding to the streams after the first, or to the residual stream if `streams` is nullptr.
  void forward(const ForwardPass& pass, const StreamsLayer* streams) const;

 private:
  // Writes norm(projection(act(gate(rows)) * layer input)) to Scratch::projected.
  void project(const ForwardPass& pass, float* rows) const;
};

void build(const LayerInputPart& part, int32_t layer_idx, LayerBuilder& builder, LayerInputLayer& layer);
void needs(const LayerInputPart& part, Needs& all);
void each_weight(const LayerInputLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const LayerInputPart& part);

}  // namespace quire
