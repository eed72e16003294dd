// Layers with a recurrent state: numbers that describe them, and the layout and the bookkeeping of their
// memory (docs/adr/0062).
//
// A state is kept at lines: positions of the sequence that are multiples of kStateLine. For the tokens since
// the line, rows are kept: key, update and summed decay of each. The memory of one layer and sequence is a
// part of a slot. It consists of two banks. A bank holds the state at one line, the rows of up to kStateLine
// tokens from the line on, and the last inputs of the convolution before the line. A step reads one bank,
// adds rows to it after those that it reads, and writes later lines to the other bank. So the same step can
// run again, however long it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

inline constexpr int32_t kStateLine = 16;     // C: tokens from one line to the next
inline constexpr int32_t kMaxStateKey = 256;  // largest key_dim
inline constexpr int32_t kMaxConvTaps = 8;
inline constexpr int32_t kMaxSolvedKey = 128;  // largest key_dim of lines that are solved: solved_line_bytes
inline constexpr int32_t kMaxSolvedTaps = 4;   // most conv_taps of these

enum class GateKind : uint8_t { none, silu, sigmoid, gelu_tanh };

// How a result is gated and normalised: RMS norm of each group of columns by itself.
struct GatedNormSpec {
  GateKind gate = GateKind::none;
  bool normalises = false;
  bool gates_first = false;    // true: norm(y * gate), false: norm(y) * gate
  bool shared_weight = false;  // true: the weight is [group_columns], the same for all groups; else [columns]
  int32_t group_columns = 0;   // divides the number of columns
  float epsilon = 1e-6f;
};

// Causal convolution over the last `taps` tokens of each channel by itself:
// y_t[c] = sum over j of tap j[c] * x_{t - taps + 1 + j}[c], in order of j, + bias; x is 0 before position 0.
struct ConvolutionSpec {
  int32_t channels = 0;
  int32_t taps = 0;   // 1..kMaxConvTaps
  bool silu = false;  // of the sum
};

// Logarithm g of the decay of a delta rule, from its input x.
enum class DecayKind : uint8_t {
  softplus,  // g = -exp(a_log) * softplus(x + bias)
  bounded,   // g = lower_bound * sigmoid(exp(a_log) * (x + bias))
};

// Gated delta rule (GDN, KDA). For each head, S [key_dim, value_dim] and g <= 0:
//   S <- exp(g) S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q
// with q, k, v = silu(conv(.)), q and k divided by sqrt(sum of squares + 1e-6), and q multiplied by
// key_dim^-1/2. Head h reads key head h / (num_heads / num_key_heads).
struct DeltaRuleSpec {
  int32_t num_heads = 0;
  int32_t num_key_heads = 0;  // divides num_heads
  int32_t key_dim = 0;        // at most kMaxStateKey
  int32_t value_dim = 0;
  int32_t conv_taps = 0;           // 0: no convolution, and no silu either
  bool decay_per_channel = false;  // KDA: g is a vector of key_dim for each head
  DecayKind decay_kind = DecayKind::softplus;
  float lower_bound = 0.0f;  // of g, negative; bounded only
  float beta_scale = 1.0f;   // beta = beta_scale * sigmoid(b); 2 allows negative eigenvalues
  GatedNormSpec norm;
};

// Mamba-2. For each head, S [state_dim, head_dim], step = clamp(softplus(dt + dt_bias), least_step,
// most_step):
//   S <- exp(-exp(a_log) step) S + B (step x)^T;  y = S^T C + D x
// with x, B, C = silu(conv(.) + bias). Head h reads B and C of group h / (num_heads / num_groups).
struct StateSpaceSpec {
  int32_t num_heads = 0;
  int32_t num_groups = 0;  // divides num_heads
  int32_t state_dim = 0;   // N, at most kMaxStateKey
  int32_t head_dim = 0;    // P
  int32_t conv_taps = 0;
  float least_step = 0.0f;
  float most_step = 3.4e38f;
  GatedNormSpec norm;
};

// Lightning attention. For each head, S [head_dim, head_dim], slope > 0, q, k, v = silu(.):
//   S <- exp(-slope) S + k v^T;  o = S^T q
struct LinearAttentionSpec {
  int32_t num_heads = 0;
  int32_t head_dim = 0;  // at most kMaxStateKey
  GatedNormSpec norm;
};

// How a token's step, and the update of its state, come about in a selective scan.
enum class ScanKind : uint8_t {
  softplus,  // Mamba-1: step = softplus(dt + dt_bias);  update = step x
  rg_lru,    // step = sigmoid(dt + dt_bias);  update = m sigmoid(i + i_bias) x, m = sqrt(1 - a^2) with the
             // decay a of S_0, but 1 at position 0; B and C are 1, and state_dim is 1
};

// Selective scan. For each channel, S [state_dim]:
//   S_n <- exp(-exp(a_log[n]) step) S_n + update B_n;  y = sum over n of S_n C_n + D x
struct SelectiveScanSpec {
  int32_t channels = 0;
  int32_t state_dim = 0;  // N, at most kMaxStateKey
  GatedNormSpec norm;
  ScanKind kind = ScanKind::softplus;
};

// Returns the elements that a vector of a state takes: whole groups of 16, the rest zeros.
constexpr int32_t padded_state_dim(int32_t dim) {
  return (dim + 15) / 16 * 16;
}

// What one operation keeps for a sequence, in elements of f32.
struct StateShape {
  int32_t conv_channels = 0;  // inputs of the convolution
  int32_t conv_taps = 0;
  int64_t state = 0;  // elements of the state
  int32_t key = 0;    // elements of a row
  int32_t update = 0;
  int32_t decay = 0;
  int32_t factor = 0;
};

constexpr StateShape state_shape(const ConvolutionSpec& spec) {
  return {.conv_channels = spec.channels, .conv_taps = spec.taps};
}

constexpr StateShape state_shape(const DeltaRuleSpec& spec) {
  const int32_t key = padded_state_dim(spec.key_dim);
  const int32_t values = spec.num_heads * padded_state_dim(spec.value_dim);
  const int32_t inputs = 2 * spec.num_key_heads * spec.key_dim + spec.num_heads * spec.value_dim;
  return {.conv_channels = spec.conv_taps != 0 ? inputs : 0,
          .conv_taps = spec.conv_taps,
          .state = int64_t{key} * values,
          .key = spec.num_key_heads * key,
          .update = values,
          .decay = spec.num_heads * (spec.decay_per_channel ? key : 1),
          .factor = spec.num_heads};
}

// Returns true if a backend may solve the lines of these heads as matrices. Others it computes row by row.
constexpr bool solves_lines(const DeltaRuleSpec& spec) {
  return spec.key_dim <= kMaxSolvedKey && spec.conv_taps <= kMaxSolvedTaps;
}

// Returns the bytes that one solved line takes, a multiple of 64: for each key head, or head if decays are
// per channel, its keys and queries (and decayed keys) in 2 x 16 bits; for each head two matrices of
// [kStateLine, kStateLine] in 2 x 16 bits, and decays. 0: solves_lines is false.
constexpr size_t solved_line_bytes(const DeltaRuleSpec& spec) {
  if (!solves_lines(spec)) return 0;
  const size_t row_bytes = size_t{kStateLine} * kMaxSolvedKey * 4,
               matrix_bytes = size_t{kStateLine} * kStateLine * 4;
  const auto heads = static_cast<size_t>(spec.num_heads), key_heads = static_cast<size_t>(spec.num_key_heads);
  const size_t of_head =
      2 * matrix_bytes + (spec.decay_per_channel ? size_t{kMaxSolvedKey} : 3 * size_t{kStateLine}) * 4;
  return (spec.decay_per_channel ? 3 * heads : 2 * key_heads) * row_bytes + heads * of_head;
}

// Returns the most lines of a step that are solved side by side, of any sequences.
constexpr int32_t max_solved_lines(int32_t max_tokens) {
  return max_tokens / 32 * 3 + 3;
}

constexpr StateShape state_shape(const StateSpaceSpec& spec) {
  const int32_t key = padded_state_dim(spec.state_dim);
  const int32_t values = spec.num_heads * padded_state_dim(spec.head_dim);
  const int32_t inputs = 2 * spec.num_groups * spec.state_dim + spec.num_heads * spec.head_dim;
  return {.conv_channels = spec.conv_taps != 0 ? inputs : 0,
          .conv_taps = spec.conv_taps,
          .state = int64_t{key} * values,
          .key = spec.num_groups * key,
          .update = values,
          .decay = spec.num_heads};
}

constexpr StateShape state_shape(const LinearAttentionSpec& spec) {
  const int32_t head = padded_state_dim(spec.head_dim);
  const int32_t columns = spec.num_heads * head;
  return {.state = int64_t{head} * columns, .key = columns, .update = columns, .decay = spec.num_heads};
}

// The rows hold B, the update, and the step.
constexpr StateShape state_shape(const SelectiveScanSpec& spec) {
  const int32_t channels = padded_state_dim(spec.channels);
  return {.state = int64_t{spec.state_dim} * channels,
          .key = spec.state_dim,
          .update = channels,
          .decay = channels};
}

// Layout of what one operation keeps for a sequence: offsets in bytes within a bank, each a multiple of 64.
// The order of elements within each part is the backend's own.
struct StateLayout {
  size_t state = 0;
  size_t keys = 0;     // kStateLine rows
  size_t updates = 0;  // kStateLine rows
  size_t decays = 0;   // kStateLine rows
  size_t factors = 0;  // kStateLine rows: beta, which solved lines need again
  size_t inputs = 0;  // [taps - 1 + kStateLine, conv_channels]: taps - 1 inputs before the line, then its own
  size_t bank_bytes = 0;  // the second bank begins here
};

constexpr StateLayout state_layout(const StateShape& shape) {
  StateLayout layout;
  size_t end = 0;
  const auto place = [&end](int64_t elements) {
    const size_t offset = end;
    end += (static_cast<size_t>(elements) * sizeof(float) + 63) / 64 * 64;
    return offset;
  };
  layout.state = place(shape.state);
  layout.keys = place(int64_t{kStateLine} * shape.key);
  layout.updates = place(int64_t{kStateLine} * shape.update);
  layout.decays = place(int64_t{kStateLine} * shape.decay);
  layout.factors = place(int64_t{kStateLine} * shape.factor);
  layout.inputs =
      place(shape.conv_taps > 0 ? int64_t{kStateLine + shape.conv_taps - 1} * shape.conv_channels : 0);
  layout.bank_bytes = end;
  return layout;
}

// Returns the bytes that an operation keeps for one sequence: its part of a slot.
constexpr size_t state_bytes(const StateShape& shape) {
  return 2 * state_layout(shape).bank_bytes;
}

// How the first token of a lane finds its state (BatchView::state_banks): number of the bank that holds the
// line of the token, plus kFromLineBefore if that bank holds the line before instead, with all rows. Then the
// token is at a line, and the step forms the state there.
inline constexpr int32_t kFromLineBefore = 2;

// The lines that the banks of a slot hold: what a host remembers of a slot, beside its content. The same for
// all layers of a sequence. A copy of a slot has the same lines.
struct StateLines {
  int32_t line[2] = {-1, -1};  // position / kStateLine, or -1: none

  bool operator==(const StateLines&) const = default;
};

// Returns the bank for a step whose first token has this position, as in BatchView::state_banks, or -1 if the
// slot cannot continue there. Requires that the rows of all tokens before `position` were written by steps
// that count. It can always continue after the last token of the last step, at the first token of that step,
// and between: at any token in the line of the last token, and in the line that the step began in.
constexpr int32_t state_bank(const StateLines& lines, int32_t position) {
  if (position == 0) return 0;
  const int32_t line = position / kStateLine;
  for (int32_t bank = 0; bank < 2; ++bank)
    if (lines.line[bank] == line) return bank;
  if (position % kStateLine != 0) return -1;
  for (int32_t bank = 0; bank < 2; ++bank)
    if (lines.line[bank] == line - 1) return bank + kFromLineBefore;
  return -1;
}

// Returns the lines of a slot to which a step copies one bank of another slot (state_params.h).
constexpr StateLines lines_of_bank(const StateLines& lines, int32_t bank) {
  StateLines copied;
  copied.line[bank % kFromLineBefore] = lines.line[bank % kFromLineBefore];
  return copied;
}

// Returns the lines after a step of `count` > 0 tokens that began at `position` with `bank`.
constexpr StateLines lines_after(StateLines lines, int32_t position, int32_t count, int32_t bank) {
  const int32_t first = position / kStateLine;
  const int32_t last = (position + count - 1) / kStateLine;
  const int32_t own = bank % kFromLineBefore;
  int32_t& other = lines.line[1 - own];
  if (bank >= kFromLineBefore) {
    lines.line[own] = first - 1;
    other = last;
    return lines;
  }
  lines.line[own] = first;
  if (last > first || other >= first) other = last > first ? last : -1;
  return lines;
}

}  // namespace quire::kernels
