// Gated RMS norm of a group of columns.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/state/state_lane.cuh"

namespace quire::kernels {

__device__ __forceinline__ float number_of(float v) {
  return v;
}
__device__ __forceinline__ float number_of(__half v) {
  return __half2float(v);
}

template <typename Gate>
__device__ __forceinline__ float gated(GateKind kind, float y, const Gate* gate, int c) {
  if (kind == GateKind::none) return y;
  const float x = number_of(gate[c]);
  if (kind == GateKind::gelu_tanh) return __fmul_rn(y, gelu_tanh_of(x));
  return __fmul_rn(y, kind == GateKind::silu ? silu_of(x) : sigmoid_of(x));
}

// Gates and normalises a group by the threads first, first + step, ... of its columns. `sum` adds up the
// squares of all these threads. The output may be the input.
template <typename Input, typename Gate, typename Sum>
__device__ __forceinline__ void gate_group(const GatedNormSpec& spec, const Input* input, const Gate* gate,
                                           const float* weight, int first, int step, Sum sum,
                                           __half* output) {
  const bool gates_first = spec.gates_first || !spec.normalises;
  float factor = 1.0f;
  if (spec.normalises) {
    float squares = 0.0f;
    for (int c = first; c < spec.group_columns; c += step) {
      const float x = number_of(input[c]), y = gates_first ? gated(spec.gate, x, gate, c) : x;
      squares = __fmaf_rn(y, y, squares);
    }
    const float mean = __fdiv_rn(sum(squares), static_cast<float>(spec.group_columns));
    factor = __fdiv_rn(1.0f, sqrtf(__fadd_rn(mean, spec.epsilon)));
  }
  for (int c = first; c < spec.group_columns; c += step) {
    float y = number_of(input[c]);
    if (gates_first) y = gated(spec.gate, y, gate, c);
    if (spec.normalises) {
      y = __fmul_rn(y, factor);
      if (weight != nullptr) y = __fmul_rn(y, weight[c]);
      if (!gates_first) y = gated(spec.gate, y, gate, c);
    }
    output[c] = __float2half_rn(y);
  }
}

// The same by one warp.
template <typename Input, typename Gate>
__device__ __forceinline__ void gate_group_by_warp(const GatedNormSpec& spec, const Input* input,
                                                   const Gate* gate, const float* weight, __half* output) {
  gate_group(
      spec, input, gate, weight, threadIdx.x & 31, 32, [](float v) { return sum_of_warp(v); }, output);
}

}  // namespace quire::kernels
