// Numbers that describe mixers with a recurrent state. Like those of specs.h they pass unchanged from a
// model's description into the parameters of the operations. The formulas use:
//   S      the state of one head, zero before the first token; it is f32 whatever the type of the activations
//   sp(x)  ln(1 + e^x), and x itself above 20
//   A      -exp(A_log)
#pragma once

#include <cstdint>
#include <limits>

namespace quire::kernels {

// Causal depthwise convolution over the last tokens of a sequence:
//   y_t[c] = act(sum over j of weights[c, j] * x_{t - num_taps + 1 + j}[c] + bias[c]), zeros before the
//   start.
struct ConvSpec {
  int32_t channels = 0;
  int32_t num_taps = 0;
  bool silu = true;  // false: y is the sum itself
};

// Decay g of the delta rule as a function of x = decay input + dt_bias. The state is multiplied by e^g.
enum class DeltaDecay : uint8_t {
  softplus,  // g = A * sp(x)
  bounded,   // g = bound * sigmoid(exp(A_log) * x)
};

enum class StateGate : uint8_t { silu, sigmoid };

// Gated delta rule. For each value head, with the convolved q, k, v of its token:
//   q = l2(q) * query_scale;  k = l2(k);  l2(x) = x / sqrt(sum of x^2 + 1e-6)
//   beta = beta_scale * sigmoid(b)
//   S = e^g * S;  d = beta * (v - S^T k);  S = S + k d^T;  o = S^T q        S is [key_dim, value_dim]
//   y = rms_norm(o) * act(gate), act by gate_form
// Value head h uses q and k of key head h / (num_value_heads / num_key_heads).
struct DeltaSpec {
  int32_t num_key_heads = 0;
  int32_t num_value_heads = 0;  // a multiple of num_key_heads
  int32_t key_dim = 0;          // per head
  int32_t value_dim = 0;
  // True: g has an element for each channel of the keys of a head (KDA); then dt_bias is [num_key_heads *
  // key_dim], A_log still [num_value_heads], and there are as many key heads as value heads. False: g is one
  // number for each value head (GDN); dt_bias and A_log are [num_value_heads].
  bool decays_by_channel = false;
  DeltaDecay decay_form = DeltaDecay::softplus;
  float decay_bound = 0.0f;  // bounded: the lower bound of g, below 0
  float beta_scale = 1.0f;   // 2: the state's eigenvalues may be negative
  float query_scale = 0.0f;
  StateGate gate_form = StateGate::silu;
};

constexpr int32_t key_columns(const DeltaSpec& spec) {
  return spec.num_key_heads * spec.key_dim;
}
constexpr int32_t value_columns(const DeltaSpec& spec) {
  return spec.num_value_heads * spec.value_dim;
}
// Returns the number of decays of a token.
constexpr int32_t decay_columns(const DeltaSpec& spec) {
  return spec.decays_by_channel ? key_columns(spec) : spec.num_value_heads;
}

// Position of the norm of a Mamba-2 mixer's result, relative to the gate silu(z).
enum class GatedNorm : uint8_t { none, after_gate, before_gate };

// Mamba-2 (SSD). For each head, with the convolved x, B, C of its token:
//   dt = clamp(sp(dt + dt_bias), least_step, largest_step)
//   S = e^(dt * A) * S + dt * x B^T;  y = S C + D * x                      S is [head_dim, state_dim]
// Head h uses B and C of group h / (num_heads / num_groups). The result of all heads is gated by silu(z); its
// norm is taken over each of `num_groups` runs of channels.
struct Mamba2Spec {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t num_groups = 0;  // divides num_heads
  int32_t state_dim = 0;   // per head
  float least_step = 0.0f;
  float largest_step = std::numeric_limits<float>::infinity();
  GatedNorm norm = GatedNorm::after_gate;
};

// Returns the number of channels of x, z and the result.
constexpr int32_t inner_columns(const Mamba2Spec& spec) {
  return spec.num_heads * spec.head_dim;
}
// Returns the number of channels that are convolved: x, B and C.
constexpr int32_t conv_columns(const Mamba2Spec& spec) {
  return inner_columns(spec) + 2 * spec.num_groups * spec.state_dim;
}

// Mamba-1. For each channel c, with the convolved x:
//   [dt, B, C] = x_proj(x), each normalised if it has a norm;  dt = sp(dt_proj(dt))     dt is [channels]
//   S[c] = e^(dt[c] * A[c]) * S[c] + dt[c] * x[c] * B;  y[c] = S[c] . C + D[c] * x[c]   S is [channels,
//   state_dim] result = y * silu(z)
struct Mamba1Spec {
  int32_t channels = 0;
  int32_t state_dim = 0;
  int32_t step_rank = 0;  // columns of dt before dt_proj
};

// Lightning attention: linear attention with a constant decay for each head. q, k, v are silu of their
// projections:
//   S = e^-slope * S + k v^T;  o = S^T q                                    S is [head_dim, head_dim]
//   y = sigmoid(gate) * rms_norm(o of all heads as one row)
struct LightningSpec {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
};

}  // namespace quire::kernels
