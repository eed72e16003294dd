// The pointwise functions of the feed-forward layer.
#pragma once

#include <cstdint>

namespace quire::kernels {

// Those that take long to say, out of the way of the usual one.
__device__ __noinline__ inline float activate_seldom(int32_t kind, float x) {
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
  return kind == 0 ? __fdividef(x, 1.0f + __expf(-x)) : activate_seldom(kind, x);
}

}  // namespace quire::kernels
