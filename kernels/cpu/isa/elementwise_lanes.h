// Row operations outside of matrices: embedding, norms, activations, logits.
#pragma once

namespace quire::kernels {
namespace {

// Up to 16 values of a type as f32, 0 in the other lanes; reads nothing beyond them.
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

// Lane i adds up the columns 16 j + i in order; then the lanes are added as sum_lanes says.
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

void norm_row(const NormRow& norm, const float* input, float* output) {
  const auto count = static_cast<float>(norm.columns);
  const float mean = norm.kind == NormKind::layer ? sum_of(input, norm.columns) / count : 0.0f;
  const float variance = sum_of_squares(input, norm.columns, mean) / count;
  const F32 factor = splat(1.0f / __builtin_sqrtf(variance + norm.epsilon));
  for (int32_t c = 0; c < norm.columns; c += 16) {
    const int32_t n = lanes_left(norm.columns, c);
    F32 y = mul(sub(load_partial(input + c, n), splat(mean)), factor);
    y = mul(y, load_partial(norm.weight + c, n));
    if (norm.bias != nullptr) y = add(y, load_partial(norm.bias + c, n));
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

void activate(Activation kind, const float* gate, const float* up, int32_t columns, float* output) {
  switch (kind) {
    case Activation::silu:
      return map_row(gate, up, columns, output, [](F32 x) { return silu_lanes(x); });
    case Activation::gelu_tanh:
      return map_row(gate, up, columns, output, [](F32 x) { return gelu_tanh_lanes(x); });
    case Activation::gelu_erf:
      return map_row(gate, up, columns, output, [](F32 x) { return gelu_erf_lanes(x); });
    case Activation::relu:
      // maximum() gives its second operand for NaN: a fault upstream stays visible.
      return map_row(gate, up, columns, output, [](F32 x) { return maximum(splat(0.0f), x); });
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
