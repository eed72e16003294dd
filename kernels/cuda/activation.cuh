// The pointwise functions of the feed-forward layer.
#pragma once

#include <cstdint>

namespace quire::kernels {

// `kind` is an Activation of the interface.
__device__ __forceinline__ float activate(int32_t kind, float x) {
  switch (kind) {
    case 0:
      return x / (1.0f + __expf(-x));
    case 1:
      return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    case 2:
      return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    default:
      return fmaxf(x, 0.0f);
  }
}

}  // namespace quire::kernels
