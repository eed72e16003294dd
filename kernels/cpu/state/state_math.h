// Functions of decays and gates over 16 lanes, and the places of a lane's rows. Included after
// elementwise_lanes.h.
#pragma once

namespace quire::kernels {
namespace {

// ln(1 + e) for e in 0..1, as 2 atanh(s) with s = e / (2 + e): no cancellation for small e.
QUIRE_LANE_INLINE F32 log1p_lanes(F32 e) {
  const F32 s = div(e, add(e, splat(2.0f)));
  const F32 z = mul(s, s);
  F32 p = splat(1.0f / 17.0f);
  p = fma(p, z, splat(1.0f / 15.0f));
  p = fma(p, z, splat(1.0f / 13.0f));
  p = fma(p, z, splat(1.0f / 11.0f));
  p = fma(p, z, splat(1.0f / 9.0f));
  p = fma(p, z, splat(1.0f / 7.0f));
  p = fma(p, z, splat(1.0f / 5.0f));
  p = fma(p, z, splat(1.0f / 3.0f));
  p = fma(p, z, splat(1.0f));
  return mul(add(s, s), p);
}

QUIRE_LANE_INLINE F32 softplus_lanes(F32 x) {
  const F32 tail = log1p_lanes(exp_lanes(negate(magnitude(x))));
  return add(select(less(x, splat(0.0f)), splat(0.0f), x), tail);
}

QUIRE_LANE_INLINE F32 sigmoid_lanes(F32 x) {
  return div(splat(1.0f), add(splat(1.0f), exp_lanes(negate(x))));
}

QUIRE_LANE_INLINE F32 sqrt_lanes(F32 x) {
  float values[16];
  store(values, x);
  for (float& value : values) value = __builtin_sqrtf(value);
  return load(values);
}

inline int32_t padded_dim_of_state(int32_t dim) {
  return (dim + 15) / 16 * 16;
}

inline float* bank_floats(uint8_t* bank, size_t offset) {
  return reinterpret_cast<float*>(bank + offset);
}
inline const float* bank_floats(const uint8_t* bank, size_t offset) {
  return reinterpret_cast<const float*>(bank + offset);
}

inline const float* row_of(const StateColumns& columns, int32_t row) {
  return columns.rows + static_cast<size_t>(row) * columns.stride;
}

inline int32_t line_of(int32_t position) {
  return position / kStateLine;
}

// Returns true if a bank still holds the rows of `line` after the step.
inline bool keeps_line(const StateLane& lane, int32_t line) {
  return line == line_of(lane.position + lane.num_rows - 1) ||
         (line == line_of(lane.position) && !lane.forms);
}

inline uint8_t* bank_of_line(const StateLane& lane, int32_t line) {
  return line == line_of(lane.position) ? lane.first : lane.later;
}

// Returns the line that the source of a lane holds.
inline int32_t source_line(const StateLane& lane) {
  return line_of(lane.position) - (lane.forms ? 1 : 0);
}

}  // namespace
}  // namespace quire::kernels
