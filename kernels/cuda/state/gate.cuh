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

// Groups of at most this many columns are normalised by a warp.
constexpr int kWarpColumns = 512;

// Loads up to four numbers; the rest are zeros.
template <typename T>
__device__ __forceinline__ float4 four_numbers(const T* from, int left) {
  if (left >= 4 && reinterpret_cast<uintptr_t>(from) % (4 * sizeof(T)) == 0) {
    struct alignas(4 * sizeof(T)) Four {
      T v[4];
    };
    const Four four = *reinterpret_cast<const Four*>(from);
    return {number_of(four.v[0]), number_of(four.v[1]), number_of(four.v[2]), number_of(four.v[3])};
  }
  float4 out = {};
  if (left > 0) out.x = number_of(from[0]);
  if (left > 1) out.y = number_of(from[1]);
  if (left > 2) out.z = number_of(from[2]);
  if (left > 3) out.w = number_of(from[3]);
  return out;
}

__device__ __forceinline__ void store_halves(__half* to, int left, float4 v) {
  const __half2 first = __floats2half2_rn(v.x, v.y), last = __floats2half2_rn(v.z, v.w);
  if (left >= 4 && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
    struct alignas(8) Four {
      __half2 v[2];
    };
    *reinterpret_cast<Four*>(to) = {first, last};
    return;
  }
  if (left > 0) to[0] = __low2half(first);
  if (left > 1) to[1] = __high2half(first);
  if (left > 2) to[2] = __low2half(last);
  if (left > 3) to[3] = __high2half(last);
}

__device__ __forceinline__ float4 product_4(float4 a, float4 b) {
  return {__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y), __fmul_rn(a.z, b.z), __fmul_rn(a.w, b.w)};
}

__device__ __forceinline__ float4 gates_of(GateKind kind, float4 x) {
  if (kind == GateKind::silu) return {silu_of(x.x), silu_of(x.y), silu_of(x.z), silu_of(x.w)};
  return {sigmoid_of(x.x), sigmoid_of(x.y), sigmoid_of(x.z), sigmoid_of(x.w)};
}

// Gates and normalises a group of at most kColumns columns by one warp; a lane has four adjacent columns of
// every 128. Sums do not depend on kColumns.
template <int kColumns, typename Input, typename Gate>
__device__ __forceinline__ void gate_columns_by_warp(const GatedNormSpec& spec, const Input* input,
                                                     const Gate* gate, const float* weight, __half* output) {
  constexpr int kPieces = kColumns / 128;
  const int first = threadIdx.x % 32 * 4, columns = spec.group_columns;
  const bool has_gate = spec.gate != GateKind::none, gates_first = spec.gates_first || !spec.normalises;
  float4 y[kPieces], gates[kPieces];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int c = first + 128 * i;
    y[i] = four_numbers(input + c, columns - c);
    if (has_gate) gates[i] = four_numbers(gate + c, columns - c);
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (has_gate) gates[i] = gates_of(spec.gate, gates[i]);
    if (has_gate && gates_first) y[i] = product_4(y[i], gates[i]);
    squares = __fmaf_rn(y[i].x, y[i].x, squares);
    squares = __fmaf_rn(y[i].y, y[i].y, squares);
    squares = __fmaf_rn(y[i].z, y[i].z, squares);
    squares = __fmaf_rn(y[i].w, y[i].w, squares);
  }
  float factor = 1.0f;
  if (spec.normalises) {
    const float mean = __fdiv_rn(sum_of_warp(squares), static_cast<float>(columns));
    factor = __fdiv_rn(1.0f, sqrtf(__fadd_rn(mean, spec.epsilon)));
  }
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int c = first + 128 * i;
    if (spec.normalises) {
      y[i] = product_4(y[i], {factor, factor, factor, factor});
      if (weight != nullptr) y[i] = product_4(y[i], four_numbers(weight + c, columns - c));
      if (has_gate && !gates_first) y[i] = product_4(y[i], gates[i]);
    }
    store_halves(output + c, columns - c, y[i]);
  }
}

// The same for any group of up to kWarpColumns columns.
template <typename Input, typename Gate>
__device__ __forceinline__ void gate_group_by_warp(const GatedNormSpec& spec, const Input* input,
                                                   const Gate* gate, const float* weight, __half* output) {
  if (spec.group_columns <= 128) {
    gate_columns_by_warp<128>(spec, input, gate, weight, output);
  } else {
    gate_columns_by_warp<kWarpColumns>(spec, input, gate, weight, output);
  }
}

}  // namespace quire::kernels
