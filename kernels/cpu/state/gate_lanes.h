// Gated RMS norm of a group of columns.
#pragma once

namespace quire::kernels {
namespace {

QUIRE_LANE_INLINE F32 gated_lanes(GateKind kind, F32 y, const float* gate, int32_t n) {
  switch (kind) {
    case GateKind::none:
      return y;
    case GateKind::silu:
      return mul(y, silu_lanes(load_partial(gate, n)));
    case GateKind::sigmoid:
      return mul(y, sigmoid_lanes(load_partial(gate, n)));
    case GateKind::gelu_tanh:
      return mul(y, gelu_tanh_lanes(load_partial(gate, n)));
  }
  return y;
}

void gate_group(const GatedNormSpec& spec, const float* input, const float* gate, const float* weight,
                float* output) {
  const int32_t columns = spec.group_columns;
  const bool gates_first = spec.gates_first || !spec.normalises;
  if (gates_first) {
    for (int32_t c = 0; c < columns; c += 16) {
      const int32_t n = lanes_left(columns, c);
      store_partial(output + c, gated_lanes(spec.gate, load_partial(input + c, n), gate + c, n), n);
    }
    input = output;
  }
  if (!spec.normalises) return;
  const float mean = sum_of_squares(input, columns, 0.0f) / static_cast<float>(columns);
  const F32 factor = splat(1.0f / __builtin_sqrtf(mean + spec.epsilon));
  for (int32_t c = 0; c < columns; c += 16) {
    const int32_t n = lanes_left(columns, c);
    F32 y = mul(load_partial(input + c, n), factor);
    if (weight != nullptr) y = mul(y, load_partial(weight + c, n));
    if (!gates_first) y = gated_lanes(spec.gate, y, gate + c, n);
    store_partial(output + c, y, n);
  }
}

}  // namespace
}  // namespace quire::kernels
