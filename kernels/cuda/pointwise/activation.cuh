// Pointwise functions of the feed-forward layer.
#pragma once

#include <cstdint>

#include "kernels/interface/specs.h"

namespace quire::kernels {

// Rare activations, not inlined to keep the code of the common one small.
__device__ __noinline__ inline float activate_rare(int32_t kind, float x) {
  switch (kind) {
    case 1:
      return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    case 2:
      return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    default:
      return fmaxf(x, 0.0f);
  }
}

// `kind` is an Activation of the interface.
__device__ __forceinline__ float activate(int32_t kind, float x) {
  return kind == 0 ? __fdividef(x, 1.0f + __expf(-x)) : activate_rare(kind, x);
}

// Returns act(gate) * up for any activation that depends on one column only.
__device__ __forceinline__ float gated(const MlpSpec& p, float x, float up) {
  const float e = expf(fminf(p.limit, x));  // used by xielu
  switch (p.activation) {
    case Activation::relu_squared:
      return fmaxf(x, 0.0f) * fmaxf(x, 0.0f) * up;
    case Activation::gelu_quick:
      return x / (1.0f + expf(-1.702f * x)) * up;
    case Activation::xielu:
      return (x > 0.0f ? p.a * x * x + p.b * x : (e - 1.0f - x) * p.c + p.b * x) * up;
    case Activation::clamped_swish: {
      const float gate = fminf(p.c, x);
      return gate / (1.0f + expf(-p.a * gate)) * (fmaxf(-p.limit, fminf(p.limit, up)) + p.b);
    }
    default:
      return activate(static_cast<int32_t>(p.activation), x) * up;
  }
}

}  // namespace quire::kernels
