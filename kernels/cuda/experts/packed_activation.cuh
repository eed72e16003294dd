// Activations with the bits of the CPU backend: the polynomials of kernels/cpu/isa/math_lanes.h and
// elementwise_lanes.h, operation by operation. Each is rounded by itself, so nothing here is fused that is
// not fused there.
#pragma once

#include <cstdint>

#include "kernels/interface/specs.h"

namespace quire::kernels::packed {

// As in the vectors of the CPU: the second number if either is NaN.
__device__ __forceinline__ float least(float a, float b) {
  return a < b ? a : b;
}
__device__ __forceinline__ float most(float a, float b) {
  return a > b ? a : b;
}

__device__ __forceinline__ float exponential(float x) {
  const float limited = least(89.0f, most(-88.0f, x));
  const int n = __float2int_rn(__fmul_rn(limited, 1.44269504088896341f));
  const float nf = __int2float_rn(n);
  float r = __fmaf_rn(nf, -0.693359375f, limited);
  r = __fmaf_rn(nf, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = __fmaf_rn(p, r, 1.3981999507e-3f);
  p = __fmaf_rn(p, r, 8.3334519073e-3f);
  p = __fmaf_rn(p, r, 4.1665795894e-2f);
  p = __fmaf_rn(p, r, 1.6666665459e-1f);
  p = __fmaf_rn(p, r, 5.0000001201e-1f);
  p = __fadd_rn(__fmaf_rn(p, __fmul_rn(r, r), r), 1.0f);
  const float power = __int_as_float(static_cast<int>(static_cast<uint32_t>(n + 127) << 23));
  return x < -87.3f ? 0.0f : __fmul_rn(p, power);
}

// x / (1 + exp(-factor x)), with the rounded product -factor x.
__device__ __forceinline__ float swish(float x, float negative_product) {
  return __fdiv_rn(x, __fadd_rn(1.0f, exponential(negative_product)));
}

__device__ __forceinline__ float gelu_tanh(float x) {
  const float cubic = __fmaf_rn(__fmul_rn(__fmul_rn(x, x), x), 0.044715f, x);
  return swish(x, __fmul_rn(cubic, -1.5957691216057308f));
}

__device__ __forceinline__ float complementary_error(float x) {
  const float t = __fdiv_rn(1.0f, __fmaf_rn(x, 0.5f, 1.0f));
  float p = 0.17087277f;
  p = __fmaf_rn(p, t, -0.82215223f);
  p = __fmaf_rn(p, t, 1.48851587f);
  p = __fmaf_rn(p, t, -1.13520398f);
  p = __fmaf_rn(p, t, 0.27886807f);
  p = __fmaf_rn(p, t, -0.18628806f);
  p = __fmaf_rn(p, t, 0.09678418f);
  p = __fmaf_rn(p, t, 0.37409196f);
  p = __fmaf_rn(p, t, 1.00002368f);
  p = __fmaf_rn(p, t, -1.26551223f);
  return __fmul_rn(t, exponential(__fmaf_rn(-x, x, p)));
}

__device__ __forceinline__ float gelu_erf(float x) {
  const float tail = complementary_error(__fmul_rn(fabsf(x), 0.70710678118654752f));
  const float twice = x < 0.0f ? tail : __fsub_rn(2.0f, tail);
  return __fmul_rn(__fmul_rn(x, 0.5f), twice);
}

__device__ __forceinline__ float xielu(const MlpSpec& spec, float x) {
  const float linear = __fmul_rn(x, spec.b);
  const float above = __fmaf_rn(__fmul_rn(x, x), spec.a, linear);
  const float bent = __fsub_rn(__fsub_rn(exponential(least(spec.limit, x)), 1.0f), x);
  return 0.0f < x ? above : __fmaf_rn(bent, spec.c, linear);
}

__device__ __forceinline__ float of_gate(const MlpSpec& spec, float x) {
  switch (spec.activation) {
    case Activation::silu:
      return swish(x, __fmul_rn(x, -1.0f));
    case Activation::gelu_tanh:
      return gelu_tanh(x);
    case Activation::gelu_erf:
      return gelu_erf(x);
    case Activation::relu:
      return most(0.0f, x);
    case Activation::relu_squared:
      return __fmul_rn(most(0.0f, x), most(0.0f, x));
    case Activation::gelu_quick:
      return swish(x, __fmul_rn(x, -1.702f));
    default:
      return xielu(spec, x);
  }
}

// Returns act(gate) * up, or act(gate) if there is no up.
__device__ __forceinline__ float activated(const MlpSpec& spec, float gate, float up) {
  if (spec.activation == Activation::clamped_swish) {
    const float g = least(spec.c, gate);
    const float u = most(-spec.limit, least(spec.limit, up));
    return __fmul_rn(__fadd_rn(u, spec.b), swish(g, __fmul_rn(g, -spec.a)));
  }
  const float y = of_gate(spec, gate);
  return spec.gated ? __fmul_rn(y, up) : y;
}

}  // namespace quire::kernels::packed
