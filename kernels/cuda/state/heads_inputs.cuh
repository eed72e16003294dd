// What the heads' kernel computes of a tile's inputs alone: queries and keys after convolution and norm,
// values after convolution, decays, and the factors of updates. See heads.cu.
#pragma once

#include "kernels/cuda/state/heads_block.cuh"

namespace quire::kernels {
namespace {

// Loads a lane's inputs of one token of queries or keys: columns `first` + lane, + 32, ...
template <int kCount, typename Space>
__device__ __forceinline__ void load_inputs(const Block<Space>& b, const FloatRows& rows, const Tile& tile,
                                            int i, int first, float (&x)[kCount]) {
  const HeadsArguments& a = b.a;
  const int position = tile.position + i;
  const float* from = nullptr;  // zeros
  if (position >= b.lane.position) {
    from = rows.rows + (tile.row + static_cast<int64_t>(i)) * rows.stride + first;
  } else if (position >= 0) {
    const int index = a.conv_taps - 1 + position - source_line(b.lane) * kStateLine;
    from = floats_at(b.lane.source, a.memory.layout.inputs) + static_cast<size_t>(index) * a.conv_channels +
           rows.taps.first_channel + first;
  }
#pragma unroll
  for (int m = 0; m < kCount; ++m)
    x[m] = from != nullptr && b.lane_idx + 32 * m < a.key_dim ? from[b.lane_idx + 32 * m] : 0.0f;
}

// Computes a lane's columns of one token of queries or keys, and keeps their inputs if `keeps`. The inputs of
// four taps are loaded together, so that a warp waits for memory once.
template <int kCount, typename Space>
__device__ __forceinline__ void convolve_row(const Block<Space>& b, const FloatRows& rows, const Tile& tile,
                                             int i, bool keeps, float (&y)[kCount]) {
  const HeadsArguments& a = b.a;
  const int taps = a.conv_taps, first = b.key_head * a.key_dim;
  const bool keeps_window = keeps && tile.enters && i == 0;
  if (taps == 0) {
    load_inputs(b, rows, tile, i, first, y);
  } else {
#pragma unroll
    for (int m = 0; m < kCount; ++m) y[m] = 0.0f;
  }
  for (int tap = 0; tap < taps; tap += kTapsAtOnce) {
    float x[kTapsAtOnce][kCount], weights[kTapsAtOnce][kCount];
#pragma unroll
    for (int j = 0; j < kTapsAtOnce; ++j) {
      if (tap + j >= taps) break;
      load_inputs(b, rows, tile, i - taps + 1 + tap + j, first, x[j]);
      const float* of_tap = rows.taps.weight + static_cast<size_t>(tap + j) * rows.taps.stride + first;
#pragma unroll
      for (int m = 0; m < kCount; ++m)
        weights[j][m] = b.lane_idx + 32 * m < a.key_dim ? __ldg(of_tap + b.lane_idx + 32 * m) : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kTapsAtOnce; ++j) {
      if (tap + j >= taps) break;
      const bool is_kept = keeps_window || (keeps && tap + j == taps - 1);
#pragma unroll
      for (int m = 0; m < kCount; ++m) {
        const int c = first + b.lane_idx + 32 * m;
        y[m] = __fmaf_rn(weights[j][m], x[j][m], y[m]);
        if (is_kept && b.lane_idx + 32 * m < a.key_dim)
          *kept_input(a.memory, tile.bank, taps, a.conv_channels, rows.taps.first_channel + c,
                      tile.begin + i - taps + 1 + tap + j) = x[j][m];
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kCount; ++m) {
    const int c = b.lane_idx + 32 * m;
    if (taps > 0 && rows.taps.bias != nullptr && c < a.key_dim)
      y[m] = __fadd_rn(y[m], __ldg(rows.taps.bias + first + c));
    if (a.silu) y[m] = silu_of(y[m]);
  }
}

// Computes queries and keys of the tile; a warp computes one row of either.
template <int kKeys, typename Space>
__device__ __forceinline__ void prepare_keys(const Block<Space>& b, const Tile& tile) {
  constexpr int kOfLane = kKeys * kWarps / 32;
  const HeadsArguments& a = b.a;
  const bool keeps = b.owns_keys && tile.bank != nullptr;
  for (int item = b.warp; item < 2 * tile.count; item += kWarps) {
    const bool is_key = (item & 1) != 0;
    const int i = item >> 1;
    const FloatRows& rows = is_key ? a.key : a.query;
    float values[kOfLane], squares = 0.0f;
    convolve_row(b, rows, tile, i, keeps, values);
#pragma unroll
    for (int m = 0; m < kOfLane; ++m) squares = __fmaf_rn(values[m], values[m], squares);
    if (a.normalises_keys) {
      const float root = sqrtf(__fadd_rn(sum_of_warp(squares), 1e-6f));
      const float factor = __fmul_rn(__fdiv_rn(1.0f, root), is_key ? 1.0f : a.query_scale);
#pragma unroll
      for (int m = 0; m < kOfLane; ++m) values[m] = __fmul_rn(values[m], factor);
    }
    float* const to = is_key ? b.space.keys[tile.begin + i] : b.space.queries[i];
#pragma unroll
    for (int m = 0; m < kOfLane; ++m) {
      const int c = b.lane_idx + 32 * m;
      to[c] = values[m];
      if (is_key && keeps && c < b.padded_key)
        const_cast<float*>(b.kept_keys(tile.bank))[(tile.begin + i) * b.padded_key + c] = values[m];
    }
  }
}

// Loads the inputs of the tile's values, and with the first tile those before it.
template <typename Space>
__device__ __forceinline__ void load_values(const Block<Space>& b, const Tile& tile, bool is_first) {
  const HeadsArguments& a = b.a;
  const int before = is_first && a.conv_taps > 0 ? a.conv_taps - 1 : 0;
  for (int i = threadIdx.x; i < (before + tile.count) * Space::kTile; i += kThreads) {
    const int t = i / Space::kTile - before, c = i % Space::kTile, own = b.first_column + c;
    const int column = b.head * a.value_dim + own;
    float x = 0.0f;
    if (own < a.value_dim)
      x = t < 0 ? earlier_input(a.memory, b.lane, a.conv_taps, a.conv_channels,
                                a.value.taps.first_channel + column, tile.position + t)
                : a.value.rows[static_cast<size_t>(tile.row + t) * a.value.stride + column];
    b.space.inputs[kWindow + t][c] = x;
  }
}

// Convolves the values, and keeps their inputs.
template <typename Space>
__device__ __forceinline__ void prepare_values(const Block<Space>& b, const Tile& tile) {
  const HeadsArguments& a = b.a;
  const int taps = a.conv_taps;
  for (int i = threadIdx.x; i < tile.count * Space::kTile; i += kThreads) {
    const int t = i / Space::kTile, c = i % Space::kTile, own = b.first_column + c;
    float y = 0.0f;
    if (own < a.value_dim) {
      const int column = b.head * a.value_dim + own;
      if (taps == 0) y = b.space.inputs[kWindow + t][c];
      for (int tap = 0; tap < taps; tap += kTapsAtOnce) {
        float weights[kTapsAtOnce];
#pragma unroll
        for (int j = 0; j < kTapsAtOnce; ++j)
          if (tap + j < taps)
            weights[j] =
                __ldg(a.value.taps.weight + static_cast<size_t>(tap + j) * a.value.taps.stride + column);
#pragma unroll
        for (int j = 0; j < kTapsAtOnce; ++j) {
          if (tap + j >= taps) break;
          const int back = taps - 1 - tap - j;
          const float x = b.space.inputs[kWindow + t - back][c];
          y = __fmaf_rn(weights[j], x, y);
          if (tile.bank != nullptr && (back == 0 || (tile.enters && t == 0)))
            *kept_input(a.memory, tile.bank, taps, a.conv_channels, a.value.taps.first_channel + column,
                        tile.begin + t - back) = x;
        }
      }
      if (taps > 0 && a.value.taps.bias != nullptr) y = __fadd_rn(y, a.value.taps.bias[column]);
      if (a.silu) y = silu_of(y);
    }
    b.space.values[t][c] = y;
  }
}

// Moves the last inputs of the tile's values to where the next tile reads them.
template <typename Space>
__device__ __forceinline__ void keep_window(const Block<Space>& b, const Tile& tile) {
  float kept = 0.0f;
  const int i = threadIdx.x, j = i / Space::kTile, c = i % Space::kTile;
  static_assert(kWindow * Space::kTile <= kThreads || Space::kTile > 32);
  if (j < kWindow) kept = b.space.inputs[tile.count + j][c];
  __syncthreads();
  if (j < kWindow) b.space.inputs[j][c] = kept;
}

__device__ __forceinline__ float decay_of(const HeadRates& r, float rate, float x) {
  if (r.decay_kind == DecayKind::bounded) return __fmul_rn(r.lower_bound, sigmoid_of(__fmul_rn(rate, x)));
  return -__fmul_rn(rate, softplus_of(x));
}

// Computes what each token has as single numbers: summed decays, and the factors of the updates. By one warp.
template <typename Space>
__device__ __forceinline__ void prepare_tokens(const Block<Space>& b, const Tile& tile) {
  const HeadsArguments& a = b.a;
  const HeadRates& r = a.rates;
  const int t = b.lane_idx, head = b.head;
  float g = 0.0f, factor = 1.0f;
  if (t < tile.count) {
    const size_t row = tile.row + t;
    if (a.rule == HeadRule::linear) {
      g = -r.slopes[head];
    } else {
      const float x = Space::kPerChannel ? 0.0f
                                         : __fadd_rn(a.decay.rows[row * a.decay.stride + head],
                                                     r.bias != nullptr ? r.bias[head] : 0.0f);
      if (a.rule == HeadRule::state_space) {
        factor = fminf(r.most_step, fmaxf(r.least_step, softplus_of(x)));
        g = -__fmul_rn(expf(r.a_log[head]), factor);
      } else {
        if (!Space::kPerChannel) g = decay_of(r, expf(r.a_log[head]), x);
        factor = __fmul_rn(r.beta_scale, sigmoid_of(a.beta.rows[row * a.beta.stride + head]));
      }
    }
    b.space.factors[Space::kSolves ? tile.begin + t : t] = factor;
    if (Space::kSolves && tile.bank != nullptr && b.first_column == 0)
      const_cast<float*>(b.kept_factors(tile.bank))[tile.begin + t] = factor;
  }
  if (Space::kPerChannel) return;
  float sum = tile.begin > 0 ? b.space.decays[0][tile.begin - 1] : 0.0f, own = 0.0f;
#pragma unroll
  for (int i = 0; i < kStateLine; ++i) {
    sum = __fadd_rn(sum, __shfl_sync(0xffffffffU, g, i));
    if (i == t) own = sum;
  }
  if (t >= tile.count) return;
  b.space.decays[0][tile.begin + t] = own;
  if (tile.bank != nullptr && b.first_column == 0)
    const_cast<float*>(b.kept_decays(tile.bank))[tile.begin + t] = own;
}

// Sums the decays of channels.
template <int kRows, typename Space>
__device__ __forceinline__ void sum_channel_decays(const Block<Space>& b, const Tile& tile) {
  const HeadsArguments& a = b.a;
  const HeadRates& r = a.rates;
  const float rate = expf(__ldg(r.a_log + b.head));
  for (int c = threadIdx.x; c < Space::kPaddedKey; c += kThreads) {
    const bool inside = c < a.key_dim;
    const int column = b.head * a.key_dim + c;
    const float bias = inside && r.bias != nullptr ? __ldg(r.bias + column) : 0.0f;
    float x[kRows];
#pragma unroll
    for (int t = 0; t < kRows; ++t)
      x[t] = inside && t < tile.count
                 ? a.decay.rows[static_cast<size_t>(tile.row + t) * a.decay.stride + column]
                 : 0.0f;
    float sum = tile.begin > 0 ? decay_at(b.space, tile.begin - 1, c) : 0.0f;
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      if (t >= tile.count) break;
      if (inside) sum = __fadd_rn(sum, decay_of(r, rate, __fadd_rn(x[t], bias)));
      b.space.decays[tile.begin + t][c] = sum;
      if (tile.bank != nullptr && b.first_column == 0 && c < b.padded_key)
        const_cast<float*>(b.kept_decays(tile.bank))[(tile.begin + t) * b.padded_key + c] = sum;
    }
  }
}

}  // namespace
}  // namespace quire::kernels
