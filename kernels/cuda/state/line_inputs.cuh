// Inputs of a line: queries, keys and values after convolution, four columns in each lane. See lines.cu.
#pragma once

#include "kernels/cuda/state/line_parts.cuh"

namespace quire::kernels {
namespace {

// Columns of the inputs that one lane convolves.
struct FourColumns {
  const FloatRows& rows;
  int first;  // in a row
  int count;  // 0..4 that exist
  bool is_vector;
};

__device__ __forceinline__ bool is_aligned(const void* place) {
  return reinterpret_cast<uintptr_t>(place) % 16 == 0;
}

__device__ __forceinline__ FourColumns four_columns(const HeadsArguments& a, const FloatRows& rows, int first,
                                                    int left) {
  FourColumns out = {rows, first, min(max(left, 0), 4)};
  out.is_vector =
      left >= 4 && is_aligned(rows.rows + first) && rows.stride % 4 == 0 &&
      (a.conv_taps == 0 || (a.conv_channels % 4 == 0 && (rows.taps.first_channel + first) % 4 == 0 &&
                            is_aligned(rows.taps.weight + first) && rows.taps.stride % 4 == 0));
  return out;
}

__device__ __forceinline__ float4 load_four(const float* from, const FourColumns& c) {
  if (c.is_vector) return four_at(from);
  float4 out = {};
  if (c.count > 0) out.x = from[0];
  if (c.count > 1) out.y = from[1];
  if (c.count > 2) out.z = from[2];
  if (c.count > 3) out.w = from[3];
  return out;
}

__device__ __forceinline__ void store_four(float* to, const FourColumns& c, float4 v) {
  if (c.is_vector) {
    *reinterpret_cast<float4*>(to) = v;
    return;
  }
  if (c.count > 0) to[0] = v.x;
  if (c.count > 1) to[1] = v.y;
  if (c.count > 2) to[2] = v.z;
  if (c.count > 3) to[3] = v.w;
}

// Inputs of a token and the tokens before it, the oldest first.
struct TokenInputs {
  float4 x[kMaxSolvedTaps];
};

// Returns true if the convolution reads input j of TokenInputs.
__device__ __forceinline__ bool has_tap(const HeadsArguments& a, int j) {
  return j >= kMaxSolvedTaps - max(a.conv_taps, 1);
}

// Loads the inputs of token i of a tile. Those before the lane's first token lie in its source. If `window`
// is given, it has those of the three tokens before the line, if they are the lane's own.
template <int kWindowStride = 0>
__device__ __forceinline__ TokenInputs load_token(const HeadsArguments& a, const StateLane& lane,
                                                  const Tile& tile, const FourColumns& c, int i,
                                                  const float* window = nullptr) {
  TokenInputs out;
#pragma unroll
  for (int j = 0; j < kMaxSolvedTaps; ++j) {
    const int back = kMaxSolvedTaps - 1 - j, position = tile.position + i - back;
    out.x[j] = {};
    if (!has_tap(a, j) || position < 0) continue;
    const float* from;
    if (window != nullptr && position >= lane.position && position < tile.position) {
      out.x[j] = four_at(window + (kMaxSolvedTaps - 1 + position - tile.position) * kWindowStride);
      continue;
    }
    if (position >= lane.position) {
      from = c.rows.rows + static_cast<int64_t>(tile.row + i - back) * c.rows.stride + c.first;
    } else {
      const int index = a.conv_taps - 1 + position - source_line(lane) * kStateLine;
      from = floats_at(lane.source, a.memory.layout.inputs) + static_cast<size_t>(index) * a.conv_channels +
             c.rows.taps.first_channel + c.first;
    }
    out.x[j] = load_four(from, c);
  }
  return out;
}

// Keeps the inputs of token i in the tile's bank, with those before the line if it enters the line.
__device__ __forceinline__ void keep_token(const HeadsArguments& a, const Tile& tile, const FourColumns& c,
                                           int i, const TokenInputs& inputs) {
  if (a.conv_taps == 0) return;
#pragma unroll
  for (int j = 0; j < kMaxSolvedTaps; ++j) {
    const int back = kMaxSolvedTaps - 1 - j;
    if (back > 0 && (!tile.enters || i > 0 || !has_tap(a, j))) continue;
    store_four(kept_input(a.memory, tile.bank, a.conv_taps, a.conv_channels,
                          c.rows.taps.first_channel + c.first, tile.begin + i - back),
               c, inputs.x[j]);
  }
}

__device__ __forceinline__ float4 convolve_token(const HeadsArguments& a, const FourColumns& c,
                                                 const TokenInputs& inputs) {
  const ChannelTaps& taps = c.rows.taps;
  float4 y = {};
  if (a.conv_taps == 0) y = inputs.x[kMaxSolvedTaps - 1];
#pragma unroll
  for (int j = 0; j < kMaxSolvedTaps; ++j) {
    const int tap = j - (kMaxSolvedTaps - a.conv_taps);
    if (a.conv_taps == 0 || tap < 0) continue;
    y = fma_4(load_four(taps.weight + static_cast<size_t>(tap) * taps.stride + c.first, c), inputs.x[j], y);
  }
  if (a.conv_taps > 0 && taps.bias != nullptr) {
    const float* const bias = taps.bias + c.first;
    if (c.count > 0) y.x = __fadd_rn(y.x, bias[0]);
    if (c.count > 1) y.y = __fadd_rn(y.y, bias[1]);
    if (c.count > 2) y.z = __fadd_rn(y.z, bias[2]);
    if (c.count > 3) y.w = __fadd_rn(y.w, bias[3]);
  }
  if (a.silu) y = {silu_of(y.x), silu_of(y.y), silu_of(y.z), silu_of(y.w)};
  return y;
}

// Divides a row of a warp's keys or queries by its norm.
__device__ __forceinline__ float4 normalised(float4 v, float scale) {
  const float squares = sum_of_warp(sum_4(fma_4(v, v, float4{})));
  const float factor = __fmul_rn(__fdiv_rn(1.0f, sqrtf(__fadd_rn(squares, 1e-6f))), scale);
  return {__fmul_rn(v.x, factor), __fmul_rn(v.y, factor), __fmul_rn(v.z, factor), __fmul_rn(v.w, factor)};
}

// Returns x of a token of the line that the source holds, from a column of the head on.
__device__ __forceinline__ const float* values_before(const HeadsArguments& a, const StateLane& lane,
                                                      int head, int token, int column) {
  const int stride = padded_to_16(a.value_dim);
  return floats_at(lane.source, a.memory.layout.updates) + (head * kStateLine + token) * stride + column;
}

// The values of the lines that a block walks: each thread has four columns of a token. They are convolved one
// line ahead, and their inputs loaded one line before that, as results may overwrite them.
struct WalkValues {
  const HeadsArguments& a;
  const StateLane& lane;
  int head;
  int token;
  int column;  // in the head
  FourColumns columns;

  __device__ __forceinline__ TokenInputs load(const Tile& tile) const {
    if (token < tile.begin || token >= tile.begin + tile.count) return {};
    return load_token(a, lane, tile, columns, token - tile.begin);
  }
  __device__ __forceinline__ float4 convolve(const Tile& tile, const TokenInputs& inputs) const {
    if (token < tile.begin)
      return column < padded_to_16(a.value_dim) ? four_at(values_before(a, lane, head, token, column))
                                                : float4{};
    if (token >= tile.begin + tile.count) return {};
    if (tile.bank != nullptr) keep_token(a, tile, columns, token - tile.begin, inputs);
    return convolve_token(a, columns, inputs);
  }
  // The same for lines of which all tokens are the lane's own and no bank keeps any, with four taps and no
  // bias. `row` is that of the line's first token.
  __device__ __forceinline__ TokenInputs load_whole(int row) const {
    const int stride = a.value.stride;
    const float* const from =
        a.value.rows + static_cast<int64_t>(row + token - kMaxSolvedTaps + 1) * stride + columns.first;
    TokenInputs inputs;
#pragma unroll
    for (int j = 0; j < kMaxSolvedTaps; ++j) inputs.x[j] = four_at(from + static_cast<int64_t>(j) * stride);
    return inputs;
  }
  __device__ __forceinline__ float4 convolve_whole(const TokenInputs& inputs) const {
    float4 y = {};
#pragma unroll
    for (int j = 0; j < kMaxSolvedTaps; ++j)
      y = fma_4(four_at(a.value.taps.weight + j * a.value.taps.stride + columns.first), inputs.x[j], y);
    return {silu_of(y.x), silu_of(y.y), silu_of(y.z), silu_of(y.w)};
  }
};

}  // namespace
}  // namespace quire::kernels
