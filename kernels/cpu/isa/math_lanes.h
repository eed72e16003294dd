// Elementary functions over 16 lanes, the same polynomial on every instruction set. Included after a
// vector_*.h.
#pragma once

namespace quire::kernels {
namespace {

// Cephes' expf: 2^n * p(r), r = x - n ln 2 in two parts. Relative error below 1.2e-7; 0 below -87.3, infinity
// above 88.37 (slightly early), NaN stays NaN.
QUIRE_LANE_INLINE F32 exp_lanes(F32 x) {
  const F32 limited = minimum(splat(89.0f), maximum(splat(-88.0f), x));
  const I32 n = to_int(mul(limited, splat(1.44269504088896341f)));
  const F32 nf = to_float(n);
  F32 r = fma(nf, splat(-0.693359375f), limited);
  r = fma(nf, splat(2.12194440e-4f), r);
  F32 p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = add(fma(p, mul(r, r), r), splat(1.0f));
  const F32 power = as_float(shift_left<23>(add(n, splat_int(127))));
  return select(less(x, splat(-87.3f)), splat(0.0f), mul(p, power));
}

QUIRE_LANE_INLINE F32 negate(F32 x) {
  return mul(x, splat(-1.0f));
}

QUIRE_LANE_INLINE F32 magnitude(F32 x) {
  return as_float(bit_and(as_int(x), splat_int(0x7fffffff)));
}

// Cephes' tanhf: a polynomial below 0.625, 1 - 2 / (exp(2|x|) + 1) above.
QUIRE_LANE_INLINE F32 tanh_lanes(F32 x) {
  const F32 size = magnitude(x);
  const F32 z = mul(x, x);
  F32 p = splat(-5.70498872745e-3f);
  p = fma(p, z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  const F32 near_zero = fma(mul(p, z), x, x);
  const F32 e = exp_lanes(add(size, size));
  const F32 far = sub(splat(1.0f), div(splat(2.0f), add(e, splat(1.0f))));
  const I32 sign = bit_and(as_int(x), splat_int(INT32_MIN));
  return select(less(size, splat(0.625f)), near_zero, as_float(bit_or(as_int(far), sign)));
}

// x / (1 + exp(-x)).
QUIRE_LANE_INLINE F32 silu_lanes(F32 x) {
  return div(x, add(splat(1.0f), exp_lanes(negate(x))));
}

// x/2 (1 + tanh(u)) = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation for negative x.
QUIRE_LANE_INLINE F32 gelu_tanh_lanes(F32 x) {
  const F32 cubic = fma(mul(mul(x, x), x), splat(0.044715f), x);
  return div(x, add(splat(1.0f), exp_lanes(mul(cubic, splat(-1.5957691216057308f)))));
}

// erfc for x >= 0 by the Chebyshev fit of Numerical Recipes, relative error below 1.2e-7.
QUIRE_LANE_INLINE F32 erfc_lanes(F32 x) {
  const F32 t = div(splat(1.0f), fma(x, splat(0.5f), splat(1.0f)));
  F32 p = splat(0.17087277f);
  p = fma(p, t, splat(-0.82215223f));
  p = fma(p, t, splat(1.48851587f));
  p = fma(p, t, splat(-1.13520398f));
  p = fma(p, t, splat(0.27886807f));
  p = fma(p, t, splat(-0.18628806f));
  p = fma(p, t, splat(0.09678418f));
  p = fma(p, t, splat(0.37409196f));
  p = fma(p, t, splat(1.00002368f));
  p = fma(p, t, splat(-1.26551223f));
  return mul(t, exp_lanes(fma(negate(x), x, p)));
}

// x/2 erfc(-x / sqrt 2), the tail taken from erfc of a positive number.
QUIRE_LANE_INLINE F32 gelu_erf_lanes(F32 x) {
  const F32 tail = erfc_lanes(mul(magnitude(x), splat(0.70710678118654752f)));
  const F32 twice_cdf = select(less(x, splat(0.0f)), tail, sub(splat(2.0f), tail));
  return mul(mul(x, splat(0.5f)), twice_cdf);
}

}  // namespace
}  // namespace quire::kernels
