// Parts of the kernels that solve lines as matrices: numbers split for the tensor cores, the memory of a
// solved line, and the tokens of a lane line by line. See lines.cu.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/state/heads_block.cuh"

namespace quire::kernels {
namespace {

constexpr int kSolvedKey = kMaxSolvedKey;
constexpr int kKeyTiles = kSolvedKey / 16;
constexpr int kSlab = 16;  // columns of values that one warp computes

// Two numbers, each as the sum of two of bf16, which keeps 16 bits of it.
struct SplitPair {
  uint32_t high;
  uint32_t low;
};

__device__ __forceinline__ SplitPair split(float x, float y) {
  SplitPair out;
  out.high = bf16_pair(x, y);
  const float of_x = __uint_as_float(out.high << 16), of_y = __uint_as_float(out.high & 0xffff0000U);
  out.low = bf16_pair(__fsub_rn(x, of_x), __fsub_rn(y, of_y));
  return out;
}

// The left operand of a product, [16, 16], in the lanes of a warp.
struct SplitTile {
  uint32_t high[4];
  uint32_t low[4];
};

// Splits two results of products, [16, 8] each, side by side.
__device__ __forceinline__ SplitTile split_tile(const float (&left)[4], const float (&right)[4]) {
  const SplitPair pairs[4] = {split(left[0], left[1]), split(left[2], left[3]), split(right[0], right[1]),
                              split(right[2], right[3])};
  SplitTile out;
#pragma unroll
  for (int i = 0; i < 4; ++i) out.high[i] = pairs[i].high, out.low[i] = pairs[i].low;
  return out;
}

// The right operand of two products [16, 8] side by side: two registers of each.
struct SplitColumns {
  uint32_t high[4];
  uint32_t low[4];
};

// Sums of products: of the high parts, and of high with low parts. The product of two low parts is too small
// to matter. There are two sums, so that a product waits for fewer of the products before it.
struct SplitSums {
  float high[4] = {};
  float mixed[4] = {};

  __device__ __forceinline__ float of(int i) const { return __fadd_rn(high[i], mixed[i]); }
};

// sums[n] += a b[n] for the columns kFirst..kLast of each of the right operands, which come one after the
// other in `sums`. Products that are added to the same sum are issued as far from each other as possible.
template <int kFirst, int kLast, int kOperands, int kSums>
__device__ __forceinline__ void multiply_split(SplitSums (&sums)[kSums], const SplitTile& a,
                                               const SplitColumns (&b)[kOperands]) {
  constexpr int kCount = kLast - kFirst + 1;
  static_assert(kSums == kOperands * kCount);
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int n = 2 * (kFirst + i % kCount);
    mma_16x8x16_bf16(sums[i].high, a.high, b[i / kCount].high[n], b[i / kCount].high[n + 1]);
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int n = 2 * (kFirst + i % kCount);
    mma_16x8x16_bf16(sums[i].mixed, a.low, b[i / kCount].high[n], b[i / kCount].high[n + 1]);
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int n = 2 * (kFirst + i % kCount);
    mma_16x8x16_bf16(sums[i].mixed, a.high, b[i / kCount].low[n], b[i / kCount].low[n + 1]);
  }
}

// Rows of a line as 16-bit numbers, [kStateLine, kSolvedKey]; groups of 8 are permuted within a row, so that
// the groups of 8 rows lie in different banks.
struct alignas(256) SplitRows {
  uint16_t high[kStateLine * kSolvedKey];
  uint16_t low[kStateLine * kSolvedKey];
};

// Returns the place of an element in SplitRows::high or low.
__device__ __forceinline__ int split_place(int row, int c) {
  return row * kSolvedKey + ((c >> 3) ^ (row & 7)) * 8 + (c & 7);
}

// Keys and queries of a line. With a decay for each channel: keys and queries times e^G, and besides keys
// times e^(G at the end of the line - G).
template <bool kPerChannel>
struct SolvedKeys {
  SplitRows keys;
  SplitRows queries;

  __device__ __forceinline__ const SplitRows& to_next_state() const { return keys; }
};
template <>
struct SolvedKeys<true> {
  SplitRows keys;
  SplitRows queries;
  SplitRows ends;

  __device__ __forceinline__ const SplitRows& to_next_state() const { return ends; }
};

// A matrix [token, row] of a line as the right operand of a product with its transpose, split in two.
struct SplitMatrix {
  uint4 high[32];
  uint4 low[32];
};

// Decays of a line. G is the decay summed from the line on.
template <bool kPerChannel>
struct LineDecays {
  float read[kStateLine];       // e^G of each token
  float remaining[kStateLine];  // e^(G at the end of the line - G)
  float whole[kStateLine];      // e^(G at the end), the same in all elements
};
template <>
struct LineDecays<true> {
  float whole[kSolvedKey];  // of each channel
};

// What a head has of a line: updates = `updates` x, results += `results` updates, where x is the difference
// between the values and what the state predicts.
template <bool kPerChannel>
struct SolvedHead {
  SplitMatrix updates;
  SplitMatrix results;
  LineDecays<kPerChannel> decays;
};
static_assert(sizeof(SolvedHead<false>) == 2240 && sizeof(SolvedHead<true>) == 2560);

// Stores element [t, j] of a matrix.
__device__ __forceinline__ void store_element(SplitMatrix& m, int t, int j, float value) {
  const SplitPair pair = split(value, 0.0f);
  const int place = ((t % 8) * 4 + (j % 8) / 2) * 8 + ((t / 8) * 2 + j / 8) * 2 + j % 2;
  reinterpret_cast<uint16_t*>(m.high)[place] = static_cast<uint16_t>(pair.high);
  reinterpret_cast<uint16_t*>(m.low)[place] = static_cast<uint16_t>(pair.low);
}

// Returns the number of lines from that of the source to that of the last token.
__device__ __forceinline__ int num_lines(const StateLane& lane) {
  return line_of(lane.position + lane.num_rows - 1) - source_line(lane) + 1;
}

// Returns the tokens of line `index` of a lane, counted from that of the source. If the lane forms the state
// at its first token, line 0 has none: all 16 lie in the source.
__device__ __forceinline__ Tile line_tile(const StateLane& lane, int index) {
  const int line = source_line(lane) + index, first = line * kStateLine;
  Tile out;
  out.begin = min(max(lane.position - first, 0), kStateLine);
  out.count = min(lane.position + lane.num_rows - first, kStateLine) - out.begin;
  out.position = first + out.begin;
  out.row = lane.first_row + out.position - lane.position;
  out.bank = out.count > 0 && keeps_line(lane, line) ? bank_of_line(lane, line) : nullptr;
  out.enters = out.count > 0 && out.begin == 0 && index > 0;
  return out;
}

}  // namespace
}  // namespace quire::kernels
