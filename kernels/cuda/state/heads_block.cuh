// What a block of the heads' kernel works with: its shared memory, its part of the state, and the rows that
// it finds in a bank. See heads.cu.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/state/state_lane.cuh"

namespace quire::kernels {
namespace {

constexpr int kWarps = 8;  // slices of the key elements
constexpr int kThreads = 32 * kWarps;
constexpr int kWindow = kMaxConvTaps - 1;
constexpr int kTapsAtOnce = 4;

enum class Form { plain, delta, delta_per_channel };

// Shared memory of a block. Rows of keys have kStride floats, so that rows begin in different banks.
template <int kKeys, int kCols, int kRows, Form kForm>
struct Space {
  static constexpr int kPaddedKey = kWarps * kKeys;
  static constexpr int kStride = kPaddedKey + 4;
  static constexpr int kTile = 32 * kCols;
  static constexpr bool kReads = kForm != Form::plain;
  static constexpr bool kPerChannel = kForm == Form::delta_per_channel;
  static constexpr bool kSolves = false;
  // Products of a single token's key and query are computed together, those of more tokens one after the
  // other.
  static constexpr bool kIsSingle = kRows == 1;
  static constexpr int kQueryProducts = kIsSingle ? 1 : 0;

  float keys[kStateLine][kStride];  // of the line so far, zeros beyond key_dim
  float queries[kRows][kStride];
  float decayed_keys[kPerChannel ? kRows : 1][kPerChannel ? kStride : 4];          // e^G key
  float decays[kPerChannel ? kStateLine : 1][kPerChannel ? kStride : kStateLine];  // G of the line so far
  float products[kWarps][kRows + kQueryProducts][kTile];  // of a warp's key elements with the state
  float updates[kStateLine][kTile];                       // of the line so far
  float inputs[kWindow + kRows][kTile];  // of the convolution of the values, the tile's from kWindow on
  float values[kRows][kTile];
  float results[kRows][kTile];  // reads of the delta rule, then results that the block gates
  float key_weights[kRows][kStateLine];
  float query_weights[kRows][kStateLine];
  float factors[kStateLine];  // beta, or the multiple of the value
};

// Consecutive tokens of a lane in one line.
struct Tile {
  int row;       // matrix row of the first token
  int position;  // of the first token
  int begin;     // index in the line of the first token, and number of tokens
  int count;
  uint8_t* bank;  // that keeps the line, or nullptr
  bool enters;    // the bank holds nothing of the line yet, and there were tokens before
};

// Returns the summed decay of row j of the line; `c` is the channel, if each has its own.
template <typename Space>
__device__ __forceinline__ float decay_at(const Space& space, int j, int c) {
  if constexpr (Space::kPerChannel) return space.decays[j][c];
  return space.decays[0][j];
}

__device__ __forceinline__ float4 fma_4(float4 a, float4 b, float4 c) {
  return {__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y), __fmaf_rn(a.z, b.z, c.z),
          __fmaf_rn(a.w, b.w, c.w)};
}
__device__ __forceinline__ float sum_4(float4 v) {
  return __fadd_rn(__fadd_rn(v.x, v.y), __fadd_rn(v.z, v.w));
}
__device__ __forceinline__ float4 four_at(const float* place) {
  return *reinterpret_cast<const float4*>(place);
}

// Numbers that all parts of the kernel need.
template <typename Space>
struct Block {
  const HeadsArguments& a;
  Space& space;
  StateLane lane;
  int head;
  int key_head;
  int first_column;  // of the head's values
  int value_stride;  // padded value_dim
  int padded_key;    // of rows in a bank
  bool owns_keys;    // keeps the keys and the inputs of queries and keys
  int warp;
  int lane_idx;

  __device__ const float* kept_keys(const uint8_t* bank) const {
    return floats_at(bank, a.memory.layout.keys) + static_cast<size_t>(key_head) * kStateLine * padded_key;
  }
  __device__ const float* kept_updates(const uint8_t* bank) const {
    return floats_at(bank, a.memory.layout.updates) + static_cast<size_t>(head) * kStateLine * value_stride;
  }
  __device__ const float* kept_decays(const uint8_t* bank) const {
    return floats_at(bank, a.memory.layout.decays) +
           static_cast<size_t>(head) * kStateLine * (Space::kPerChannel ? padded_key : 1);
  }
  __device__ const float* kept_factors(const uint8_t* bank) const {
    return floats_at(bank, a.memory.layout.factors) + static_cast<size_t>(head) * kStateLine;
  }
  // Returns the first of this thread's elements of the state.
  __device__ const float* kept_state(const uint8_t* bank) const {
    return floats_at(bank, a.memory.layout.state) +
           (static_cast<size_t>(head) * padded_key + warp * (Space::kPaddedKey / kWarps)) * value_stride +
           first_column + lane_idx * (Space::kTile / 32);
  }
};

template <int kCols>
struct Columns {
  float v[kCols];
};
template <int kCols>
__device__ __forceinline__ Columns<kCols> load_columns(const float* from) {
  Columns<kCols> out;
  if constexpr (kCols == 4) {
    const float4 v = four_at(from);
    out.v[0] = v.x, out.v[1] = v.y, out.v[2] = v.z, out.v[3] = v.w;
  } else if constexpr (kCols == 2) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    out.v[0] = v.x, out.v[1] = v.y;
  } else {
    out.v[0] = *from;
  }
  return out;
}
template <int kCols>
__device__ __forceinline__ void store_columns(float* to, const Columns<kCols>& c) {
  if constexpr (kCols == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(c.v[0], c.v[1], c.v[2], c.v[3]);
  } else if constexpr (kCols == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(c.v[0], c.v[1]);
  } else {
    *to = c.v[0];
  }
}

// The rows of the state of a warp's key elements, in a lane's columns.
template <int kKeys, int kCols>
struct StatePart {
  Columns<kCols> rows[kKeys];
};

template <int kKeys, int kCols, typename Space>
__device__ __forceinline__ void load_state(const Block<Space>& b, StatePart<kKeys, kCols>& state) {
  const bool inside = b.first_column + b.lane_idx * kCols < b.value_stride && source_line(b.lane) > 0;
  const float* const from = b.kept_state(b.lane.source);
#pragma unroll
  for (int k = 0; k < kKeys; ++k) {
    state.rows[k] = {};
    if (inside && b.warp * kKeys + k < b.a.key_dim)
      state.rows[k] = load_columns<kCols>(from + static_cast<size_t>(k) * b.value_stride);
  }
}

template <int kKeys, int kCols, typename Space>
__device__ __forceinline__ void store_state(const Block<Space>& b, uint8_t* bank,
                                            const StatePart<kKeys, kCols>& state) {
  if (b.first_column + b.lane_idx * kCols >= b.value_stride) return;
  auto* const to = const_cast<float*>(b.kept_state(bank));
#pragma unroll
  for (int k = 0; k < kKeys; ++k)
    if (b.warp * kKeys + k < b.a.key_dim)
      store_columns<kCols>(to + static_cast<size_t>(k) * b.value_stride, state.rows[k]);
}

// Loads the first `count` rows of the line that the source holds.
template <typename Space>
__device__ __forceinline__ void load_rows(const Block<Space>& b, int count) {
  Space& space = b.space;
  const float* const keys = b.kept_keys(b.lane.source);
  const float* const decays = b.kept_decays(b.lane.source);
  const float* const updates = b.kept_updates(b.lane.source);
  for (int i = threadIdx.x; i < count * Space::kPaddedKey; i += kThreads) {
    const int j = i / Space::kPaddedKey, c = i % Space::kPaddedKey;
    const bool inside = c < b.padded_key;
    space.keys[j][c] = inside ? keys[j * b.padded_key + c] : 0.0f;
    if constexpr (Space::kPerChannel) space.decays[j][c] = inside ? decays[j * b.padded_key + c] : 0.0f;
  }
  for (int i = threadIdx.x; i < count * Space::kTile; i += kThreads) {
    const int j = i / Space::kTile, c = i % Space::kTile, column = b.first_column + c;
    space.updates[j][c] = column < b.value_stride ? updates[j * b.value_stride + column] : 0.0f;
  }
  if (!Space::kPerChannel && static_cast<int>(threadIdx.x) < count)
    space.decays[0][threadIdx.x] = decays[threadIdx.x];
}

// Forms the state at the next line. The line's rows are in shared memory, and its keys are overwritten.
template <int kKeys, int kCols, typename Space>
__device__ __forceinline__ void form_state(const Block<Space>& b, StatePart<kKeys, kCols>& state) {
  Space& space = b.space;
  for (int i = threadIdx.x; i < kStateLine * Space::kPaddedKey; i += kThreads) {
    const int j = i / Space::kPaddedKey, c = i % Space::kPaddedKey;
    const float decay = __fsub_rn(decay_at(space, kStateLine - 1, c), decay_at(space, j, c));
    space.keys[j][c] = __fmul_rn(expf(decay), space.keys[j][c]);
  }
  __syncthreads();
  const int first = b.warp * kKeys;
#pragma unroll
  for (int k = 0; k < kKeys; ++k) {
    const float decay = expf(decay_at(space, kStateLine - 1, first + k));
#pragma unroll
    for (int c = 0; c < kCols; ++c) state.rows[k].v[c] = __fmul_rn(decay, state.rows[k].v[c]);
  }
#pragma unroll 4
  for (int j = 0; j < kStateLine; ++j) {
    const Columns<kCols> update = load_columns<kCols>(&space.updates[j][b.lane_idx * kCols]);
#pragma unroll
    for (int k = 0; k < kKeys; k += 4) {
      const float4 four = four_at(&space.keys[j][first + k]);
      const float key[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int c = 0; c < kCols; ++c)
          state.rows[k + i].v[c] = __fmaf_rn(key[i], update.v[c], state.rows[k + i].v[c]);
    }
  }
  __syncthreads();
}

}  // namespace
}  // namespace quire::kernels
