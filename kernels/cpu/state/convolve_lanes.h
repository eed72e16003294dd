// Causal convolution over tokens, with what follows it: silu, the l2 norm of a head, storing keys.
//
// The raw inputs of a line lie in its bank, after the taps - 1 inputs before the line, so a step that runs
// again finds the inputs before its first token unchanged.
#pragma once

namespace quire::kernels {
namespace {

// The last taps - 1 inputs of each channel, as a ring.
struct InputWindow {
  float rows[kMaxConvTaps - 1][kMaxStateKey];
  int32_t size;    // taps - 1
  int32_t oldest;  // row of the oldest input
};

inline int32_t window_row(const InputWindow& window, int32_t age) {
  const int32_t row = window.oldest + age;
  return row < window.size ? row : row - window.size;
}

// Returns row `index` of the inputs that a bank holds; rows 0..taps - 2 lie before the line.
inline float* kept_inputs(const ConvolveUnit& unit, uint8_t* bank, int32_t index) {
  return bank_floats(bank, unit.inputs) + static_cast<size_t>(index) * unit.inputs_stride;
}

inline void copy_floats(float* target, const float* source, int32_t count) {
  __builtin_memcpy(target, source, static_cast<size_t>(count) * sizeof(float));
}

inline void open_window(const ConvolveUnit& unit, const StateLane& lane, InputWindow& window) {
  window.size = unit.taps - 1;
  window.oldest = 0;
  const int32_t line_start = source_line(lane) * kStateLine;
  for (int32_t j = 0; j < window.size; ++j) {
    const int32_t position = lane.position - window.size + j;
    const size_t index = static_cast<size_t>(window.size + position - line_start);
    if (position >= 0) {
      copy_floats(window.rows[j], bank_floats(lane.source, unit.inputs) + index * unit.inputs_stride,
                  unit.channels);
    } else {
      __builtin_memset(window.rows[j], 0, sizeof window.rows[j]);
    }
  }
}

// Stores the inputs before a line at its beginning.
inline void keep_window(const ConvolveUnit& unit, const InputWindow& window, uint8_t* bank) {
  for (int32_t j = 0; j < window.size; ++j)
    copy_floats(kept_inputs(unit, bank, j), window.rows[window_row(window, j)], unit.channels);
}

// Convolves one token. `kept` receives the raw inputs, unless it is nullptr.
template <int32_t kTaps>
void convolve_token(const ConvolveUnit& unit, int32_t row, InputWindow& window, float* kept, float* output) {
  const int32_t older = kTaps != 0 ? kTaps - 1 : window.size;
  const float* past[kMaxConvTaps];
  for (int32_t j = 0; j < older; ++j) past[j] = window.rows[window_row(window, j)];
  float* const newest = window.rows[window.oldest];
  for (int32_t c = 0; c < unit.channels; c += 16) {
    const int32_t n = lanes_left(unit.channels, c);
    F32 x = load_partial(row_of(unit.input, row) + c, n);
    if (unit.before.rows != nullptr) x = mul(x, load_partial(row_of(unit.before, row) + c, n));
    F32 y = splat(0.0f);
    for (int32_t j = 0; j < older; ++j) {
      const float* tap = unit.weight + static_cast<size_t>(j) * unit.weight_stride;
      y = fma(load_partial(tap + c, n), load_partial(past[j] + c, n), y);
    }
    y = fma(load_partial(unit.weight + static_cast<size_t>(older) * unit.weight_stride + c, n), x, y);
    if (unit.bias != nullptr) y = add(y, load_partial(unit.bias + c, n));
    if (unit.silu) y = silu_lanes(y);
    if (unit.after.rows != nullptr) y = mul(y, load_partial(row_of(unit.after, row) + c, n));
    if (older > 0) store_partial(newest + c, x, n);
    if (kept != nullptr) store_partial(kept + c, x, n);
    store_partial(output + c, y, n);
  }
  if (older > 0) window.oldest = window_row(window, 1);
}

inline void activate_token(const ConvolveUnit& unit, int32_t row, float* output) {
  for (int32_t c = 0; c < unit.channels; c += 16) {
    const int32_t n = lanes_left(unit.channels, c);
    const F32 x = load_partial(row_of(unit.input, row) + c, n);
    store_partial(output + c, unit.silu ? silu_lanes(x) : x, n);
  }
}

inline void normalise_token(const ConvolveUnit& unit, float* output) {
  const float squares = sum_of_squares(output, unit.channels, 0.0f);
  const F32 factor = splat(1.0f / __builtin_sqrtf(squares + 1e-6f) * unit.scale);
  for (int32_t c = 0; c < unit.channels; c += 16) {
    const int32_t n = lanes_left(unit.channels, c);
    store_partial(output + c, mul(load_partial(output + c, n), factor), n);
  }
}

// Stores a key of the line; elements beyond the head are zeros.
inline void keep_key(const ConvolveUnit& unit, uint8_t* bank, int32_t index, const float* key) {
  const int32_t padded = padded_dim_of_state(unit.channels);
  float* kept = bank_floats(bank, unit.keys) + static_cast<size_t>(index) * static_cast<size_t>(padded);
  for (int32_t c = 0; c < padded; c += 16)
    store(kept + c, load_partial(key + c, lanes_left(unit.channels, c)));
}

template <int32_t kTaps>
void convolve_rows(const ConvolveUnit& unit, const StateLane& lane) {
  InputWindow window;
  if (unit.taps > 0) open_window(unit, lane, window);
  for (int32_t i = 0; i < lane.num_rows; ++i) {
    const int32_t row = lane.first_row + i, position = lane.position + i;
    const int32_t line = line_of(position), index = position % kStateLine;
    uint8_t* const bank = keeps_line(lane, line) ? bank_of_line(lane, line) : nullptr;
    float* output = unit.output + static_cast<size_t>(row) * unit.output_stride;
    if (unit.taps > 0) {
      if (index == 0 && bank != nullptr && (i > 0 || lane.forms)) keep_window(unit, window, bank);
      float* kept = bank != nullptr ? kept_inputs(unit, bank, window.size + index) : nullptr;
      convolve_token<kTaps>(unit, row, window, kept, output);
    } else {
      activate_token(unit, row, output);
    }
    if (unit.normalises) normalise_token(unit, output);
    if (unit.keeps_keys && bank != nullptr) keep_key(unit, bank, index, output);
  }
}

void convolve(const ConvolveUnit& unit, const StateLane& lane) {
  switch (unit.taps) {
    case 3:
      return convolve_rows<3>(unit, lane);
    case 4:
      return convolve_rows<4>(unit, lane);
    default:
      return convolve_rows<0>(unit, lane);
  }
}

}  // namespace
}  // namespace quire::kernels
