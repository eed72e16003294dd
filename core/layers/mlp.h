// The feed-forward half of a decoder layer.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"

namespace quire {

// hidden += down(act(gate(norm(hidden))) * up(norm(hidden))).
struct MlpLayer {
  NormLayer norm;
  PreparedWeight gate_up;  // parts gate, up; one part where ungated
  PreparedWeight down;
  kernels::Activation activation = kernels::Activation::silu;
  bool gated = true;
  int32_t intermediate = 0;

  // `next` is the matrix that the following block reads first, or nullptr.
  void forward(const ForwardPass& pass, const kernels::Weight* next) const;
};

}  // namespace quire
