// Selective scan (Mamba-1, RG-LRU) of 16 channels: computes the recurrence token by token, from the last
// line.
//
// The decay depends on channel and state element, so a sum over the rows of a line would need as many
// exponentials as the recurrence from the line does. A step therefore repeats the rows that the bank holds,
// then goes on, and a prefill computes each token once.
#pragma once

namespace quire::kernels {
namespace {

// State and coefficients of 16 channels.
struct ScanBlock {
  float state[kMaxStateKey][16];
  float rates[kMaxStateKey][16];  // -exp(a_log)
};

inline void open_scan(const ScanWork& work, int32_t block, int32_t n, ScanBlock& scan) {
  for (int32_t s = 0; s < work.state_dim; ++s) {
    const float* a_log = work.a_log + static_cast<size_t>(s) * static_cast<size_t>(work.channels) +
                         static_cast<size_t>(block) * 16;
    store(scan.rates[s], negate(exp_lanes(load_partial(a_log, n))));
  }
}

QUIRE_LANE_INLINE void advance_scan(int32_t state_dim, F32 step, F32 update, const float* key,
                                    ScanBlock& scan) {
  for (int32_t s = 0; s < state_dim; ++s) {
    const F32 decay = exp_lanes(mul(step, load(scan.rates[s])));
    store(scan.state[s], fma(update, splat(key[s]), mul(decay, load(scan.state[s]))));
  }
}

inline size_t scan_row(int32_t block, int32_t index) {
  return (static_cast<size_t>(block) * kStateLine + static_cast<size_t>(index)) * 16;
}

inline size_t scan_state_floats(const ScanWork& work, int32_t block) {
  return static_cast<size_t>(block) * static_cast<size_t>(work.state_dim) * 16;
}

inline size_t scan_state_bytes(const ScanWork& work) {
  return static_cast<size_t>(work.state_dim) * 16 * sizeof(float);
}

// Sets the state before the lane's first row.
inline void resume_scan(const ScanWork& work, const StateLane& lane, int32_t block, ScanBlock& scan) {
  const int32_t line = source_line(lane);
  if (line == 0 || lane.position == 0) {
    __builtin_memset(scan.state, 0, scan_state_bytes(work));
  } else {
    __builtin_memcpy(scan.state, bank_floats(lane.source, work.state) + scan_state_floats(work, block),
                     scan_state_bytes(work));
  }
  for (int32_t index = 0; index < lane.position - line * kStateLine; ++index) {
    const F32 step = load(bank_floats(lane.source, work.decays) + scan_row(block, index));
    const F32 update = load(bank_floats(lane.source, work.updates) + scan_row(block, index));
    const float* key = bank_floats(lane.source, work.keys) +
                       static_cast<size_t>(index) * static_cast<size_t>(work.state_dim);
    advance_scan(work.state_dim, step, update, key, scan);
  }
}

// Step and update of a token.
struct ScanInput {
  F32 step;
  F32 update;
};

inline F32 load_or_zero(const float* vector, int32_t first, int32_t n) {
  return vector != nullptr ? load_partial(vector + first, n) : splat(0.0f);
}

// Returns them from the token's input x, the input of its step, and for an RG-LRU the gate of x and the rate
// of the state.
QUIRE_LANE_INLINE ScanInput scan_input(ScanKind kind, F32 x, F32 dt, F32 gate, F32 rate, int32_t position) {
  if (kind == ScanKind::softplus) {
    const F32 step = softplus_lanes(dt);
    return {step, mul(step, x)};
  }
  const F32 step = sigmoid_lanes(dt), gated = mul(x, sigmoid_lanes(gate));
  if (position == 0) return {step, gated};
  const F32 log_decay = mul(step, rate);
  const F32 rest = sub(splat(1.0f), exp_lanes(add(log_decay, log_decay)));
  return {step, mul(gated, sqrt_lanes(rest))};
}

// Returns a token's row of B or C.
inline const float* scan_vector(const ScanWork& work, const StateColumns& columns, int32_t row) {
  static constexpr float kOne[] = {1.0f};
  return work.kind == ScanKind::rg_lru ? kOne : row_of(columns, row);
}

void scan_block(const ScanWork& work, const StateLane& lane, int32_t block) {
  const int32_t first = block * 16, n = lanes_left(work.channels, first);
  ScanBlock scan;
  open_scan(work, block, n, scan);
  resume_scan(work, lane, block, scan);
  const bool is_lru = work.kind == ScanKind::rg_lru;
  const F32 bias = load_or_zero(work.bias, first, n), skip = load_or_zero(work.skip, first, n);
  const F32 input_bias = load_or_zero(work.input_bias, first, n);
  for (int32_t i = 0; i < lane.num_rows; ++i) {
    const int32_t row = lane.first_row + i, position = lane.position + i;
    const int32_t line = line_of(position), index = position % kStateLine;
    uint8_t* const bank = keeps_line(lane, line) ? bank_of_line(lane, line) : nullptr;
    const bool enters = index == 0 && bank != nullptr && line > 0 && (i > 0 || lane.forms);
    if (enters)
      __builtin_memcpy(bank_floats(bank, work.state) + scan_state_floats(work, block), scan.state,
                       scan_state_bytes(work));
    const F32 x = load_partial(row_of(work.input, row) + first, n);
    const F32 dt = add(load_partial(row_of(work.step, row) + first, n), bias);
    const F32 gate = is_lru ? add(load_partial(row_of(work.input_gate, row) + first, n), input_bias) : x;
    const auto [step, update] = scan_input(work.kind, x, dt, gate, load(scan.rates[0]), position);
    const float* key = scan_vector(work, work.key, row);
    if (bank != nullptr) {
      store(bank_floats(bank, work.decays) + scan_row(block, index), step);
      store(bank_floats(bank, work.updates) + scan_row(block, index), update);
      float* keys =
          bank_floats(bank, work.keys) + static_cast<size_t>(index) * static_cast<size_t>(work.state_dim);
      if (block == 0) copy_floats(keys, key, work.state_dim);
    }
    advance_scan(work.state_dim, step, update, key, scan);
    const float* query = scan_vector(work, work.query, row);
    F32 y = splat(0.0f);
    for (int32_t s = 0; s < work.state_dim; ++s) y = fma(load(scan.state[s]), splat(query[s]), y);
    y = fma(skip, x, y);
    store_partial(work.output + static_cast<size_t>(row) * work.output_stride + first, y, n);
  }
}

}  // namespace
}  // namespace quire::kernels
