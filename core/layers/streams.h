// What Gemma 3n and 4 have around the blocks of a layer: streams that are predicted and corrected, a low-rank
// way around attention, and the token's own embedding for the layer.
#pragma once

#include <optional>

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"

namespace quire {

struct LaurelLayer {
  PreparedWeight left;
  PreparedWeight right;
  NormLayer norm;

  // Leaves normed + norm(right(left(normed))) in Scratch::row.
  void forward(const ForwardPass& pass, const void* normed) const;
};

// The residual streams: the first lies in workspace.hidden between layers, the others in Scratch::streams.
struct StreamsLayer {
  PreparedWeight router;
  NormLayer router_norm;
  PreparedWeight prediction;
  PreparedWeight correction;
  DeviceBuffer output_scale;  // empty: none
  int32_t num_streams = 0;

  // The predictions go to Scratch::more_streams, the first of them to workspace.hidden.
  void predict(const ForwardPass& pass) const;
  // From what the blocks have made of workspace.hidden.
  void correct(const ForwardPass& pass) const;

 private:
  void route(const ForwardPass& pass) const;
};

struct LayerInputLayer {
  PreparedWeight gate;
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  PreparedWeight projection;
  NormLayer norm;
  int32_t columns = 0;
  int32_t layer_idx = 0;
  int32_t num_layers = 0;

  // norm(projection(act(gate(rows)) * input of the layer)) into Scratch::projected.
  void forward(const ForwardPass& pass, float* rows) const;
};

}  // namespace quire
