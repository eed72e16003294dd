// Row operations other than matrix products: embedding, norms, activations, logits.
#pragma once

namespace quire::kernels {
namespace {

// Loads up to 16 values of a type as f32, 0 in the other lanes; reads nothing beyond them.
QUIRE_LANE_INLINE F32 load_as_float(DType dtype, const void* row, int32_t first, int32_t n) {
  if (dtype == DType::f32) return load_partial(static_cast<const float*>(row) + first, n);
  const uint16_t* source = static_cast<const uint16_t*>(row) + first;
  uint16_t padded[16] = {};
  if (n < 16) {
    __builtin_memcpy(padded, source, static_cast<size_t>(n) * 2);
    source = padded;
  }
  return dtype == DType::f16 ? load_half(source) : load_bfloat(source);
}

QUIRE_LANE_INLINE int32_t lanes_left(int32_t columns, int32_t first) {
  return columns - first < 16 ? columns - first : 16;
}

void embed_row(DType dtype, const void* row, int32_t columns, float scale, float* out) {
  for (int32_t c = 0; c < columns; c += 16) {
    const int32_t n = lanes_left(columns, c);
    store_partial(out + c, mul(load_as_float(dtype, row, c, n), splat(scale)), n);
  }
}

// Lane i sums the columns 16 j + i in order; then the lanes are summed as in sum_lanes.
inline float sum_of_squares(const float* x, int32_t columns, float mean) {
  F32 sum = splat(0.0f);
  for (int32_t c = 0; c < columns; c += 16) {
    const int32_t n = lanes_left(columns, c);
    const F32 centred = select(first_lanes(n), sub(load_partial(x + c, n), splat(mean)), splat(0.0f));
    sum = fma(centred, centred, sum);
  }
  return sum_lanes(sum);
}

inline float sum_of(const float* x, int32_t columns) {
  F32 sum = splat(0.0f);
  for (int32_t c = 0; c < columns; c += 16) sum = add(sum, load_partial(x + c, lanes_left(columns, c)));
  return sum_lanes(sum);
}

inline F32 weighted(const NormRow& norm, F32 y, int32_t c, int32_t n) {
  if (norm.weight != nullptr) y = mul(y, load_partial(norm.weight + c, n));
  if (norm.bias != nullptr) y = add(y, load_partial(norm.bias + c, n));
  return y;
}

void norm_row(const NormRow& norm, const float* input, float* output) {
  const auto count = static_cast<float>(norm.columns);
  const bool is_norm = norm.kind != NormKind::none;
  const float mean = norm.kind == NormKind::layer ? sum_of(input, norm.columns) / count : 0.0f;
  const float variance = is_norm ? sum_of_squares(input, norm.columns, mean) / count : 0.0f;
  const F32 factor = splat(is_norm ? 1.0f / __builtin_sqrtf(variance + norm.epsilon) : 1.0f);
  for (int32_t c = 0; c < norm.columns; c += 16) {
    const int32_t n = lanes_left(norm.columns, c);
    F32 y = mul(sub(load_partial(input + c, n), splat(mean)), factor);
    y = weighted(norm, y, c, n);
    if (norm.accumulate) y = add(load_partial(output + c, n), y);
    store_partial(output + c, y, n);
  }
}

template <typename Function>
QUIRE_LANE_INLINE void map_row(const float* gate, const float* up, int32_t columns, float* output,
                               Function function) {
  for (int32_t c = 0; c < columns; c += 16) {
    const int32_t n = lanes_left(columns, c);
    F32 y = function(load_partial(gate + c, n));
    if (up != nullptr) y = mul(y, load_partial(up + c, n));
    store_partial(output + c, y, n);
  }
}

// a x^2 + b x above 0; c (exp(min(x, e)) - 1 - x) + b x below.
QUIRE_LANE_INLINE F32 xielu_lanes(const MlpSpec& spec, F32 x) {
  const F32 linear = mul(x, splat(spec.b));
  const F32 above = fma(mul(x, x), splat(spec.a), linear);
  const F32 bent = sub(sub(exp_lanes(minimum(splat(spec.limit), x)), splat(1.0f)), x);
  return select(less(splat(0.0f), x), above, fma(bent, splat(spec.c), linear));
}

// Returns the threshold of a sparse gate: its mean plus some standard deviations.
inline float sparsity_cutoff(const MlpSpec& spec, const float* gate) {
  const auto count = static_cast<float>(spec.intermediate);
  const float mean = sum_of(gate, spec.intermediate) / count;
  const float variance = sum_of_squares(gate, spec.intermediate, mean) / count;
  return mean + spec.sparsity_deviations * __builtin_sqrtf(variance);
}

inline void clamped_swish(const MlpSpec& spec, const float* gate, const float* up, float* output) {
  for (int32_t c = 0; c < spec.intermediate; c += 16) {
    const int32_t n = lanes_left(spec.intermediate, c);
    const F32 g = minimum(splat(spec.c), load_partial(gate + c, n));
    const F32 u = maximum(splat(-spec.limit), minimum(splat(spec.limit), load_partial(up + c, n)));
    const F32 glu = div(g, add(splat(1.0f), exp_lanes(mul(g, splat(-spec.a)))));
    store_partial(output + c, mul(add(u, splat(spec.b)), glu), n);
  }
}

void activate(const MlpSpec& spec, const float* gate, const float* up, float* output) {
  const int32_t columns = spec.intermediate;
  const auto map = [&](auto function) {
    if (!spec.is_sparse) return map_row(gate, up, columns, output, function);
    const F32 cutoff = splat(sparsity_cutoff(spec, gate));
    map_row(gate, up, columns, output, [&](F32 x) { return function(maximum(splat(0.0f), sub(x, cutoff))); });
  };
  switch (spec.activation) {
    case Activation::silu:
      return map([](F32 x) { return silu_lanes(x); });
    case Activation::gelu_tanh:
      return map([](F32 x) { return gelu_tanh_lanes(x); });
    case Activation::gelu_erf:
      return map([](F32 x) { return gelu_erf_lanes(x); });
    case Activation::relu:
      // maximum() returns its second operand for NaN, so that an error upstream stays visible.
      return map([](F32 x) { return maximum(splat(0.0f), x); });
    case Activation::relu_squared:
      return map([](F32 x) {
        const F32 kept = maximum(splat(0.0f), x);
        return mul(kept, kept);
      });
    case Activation::gelu_quick:
      return map([](F32 x) { return div(x, add(splat(1.0f), exp_lanes(mul(x, splat(-1.702f))))); });
    case Activation::xielu:
      return map([&](F32 x) { return xielu_lanes(spec, x); });
    case Activation::clamped_swish:
      return clamped_swish(spec, gate, up, output);
  }
}

void scale_logits(float* logits, int64_t count, float scale, float softcap) {
  for (int64_t i = 0; i < count; i += 16) {
    const int32_t n = count - i < 16 ? static_cast<int32_t>(count - i) : 16;
    F32 y = mul(load_partial(logits + i, n), splat(scale));
    if (softcap != 0.0f) y = mul(tanh_lanes(div(y, splat(softcap))), splat(softcap));
    store_partial(logits + i, y, n);
  }
}

}  // namespace
}  // namespace quire::kernels
