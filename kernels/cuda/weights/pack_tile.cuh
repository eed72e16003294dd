// Packs codes into tiles: matrix.h.
#pragma once

#include "kernels/cuda/gemm/plane.cuh"

namespace quire::kernels {

// Return the row and column of a lane's element: pair h of its elements, first or second code (x) of the
// pair.
__device__ __forceinline__ int lane_row(int lane, int h, int x) {
  return 8 * (lane & 3) + 4 * ((h / 4) & 1) + 2 * ((h & 3) >> 1) + x;
}
__device__ __forceinline__ int lane_column(int lane, int h) {
  return 16 * (h / 8) + (lane >> 2) + 8 * (h & 1);
}

__device__ __forceinline__ void put(uint32_t* words, int word, int bit, uint32_t value) {
  words[word] |= value << bit;
}

// kE2m1: the codes are E2M1 (4 bits).
template <int kBits, bool kE2m1 = false, typename Code>
__device__ __forceinline__ void pack_tile(uint8_t* tile, int lane, Code code_of) {
  constexpr int kLow = kBits == 3 ? 2 : kBits == 5 || kBits == 6 ? 4 : kBits;  // bits of the low plane
  constexpr int kLowWords = kLow;
  uint32_t low[kLowWords] = {};
  uint32_t high[2] = {};
#pragma unroll
  for (int h = 0; h < 16; ++h) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const uint32_t code = code_of(lane_row(lane, h, x), lane_column(lane, h));
      const uint32_t low_code = code & ((1U << kLow) - 1);
      if constexpr (kLow == 2) put(low, h / 8, 2 * (h % 8) + 16 * x, low_code);
      if constexpr (kE2m1) {
        put(low, h / 4, 16 * x, e2m1_field(code, h % 4));
      } else if constexpr (kLow == 4) {
        put(low, h / 4, 4 * (h % 4) + 16 * x, low_code);
      }
      if constexpr (kLow == 8) put(low, h / 2, 8 * (h % 2) + 16 * x, low_code);
      if constexpr (kBits == 3) put(high, 0, high_bit_of_3(h) + 16 * x, code >> 2);
      if constexpr (kBits == 5) put(high, 0, high_bit_of_5(h) + 16 * x, code >> 4);
      if constexpr (kBits == 6) put(high, h / 8, high_bit_of_6(h) + 16 * x, code >> 4);
    }
  }
  auto* words = reinterpret_cast<uint32_t*>(tile);
  if constexpr (kLow == 8) {
#pragma unroll
    for (int w = 0; w < 8; ++w) words[(w / 4) * 128 + lane * 4 + w % 4] = low[w];
  } else {
#pragma unroll
    for (int w = 0; w < kLowWords; ++w) words[lane * kLowWords + w] = low[w];
  }
  if constexpr (kBits == 3) words[64 + lane] = high[0];
  if constexpr (kBits == 5) words[128 + lane] = high[0];
  if constexpr (kBits == 6) {
    words[128 + lane * 2] = high[0];
    words[128 + lane * 2 + 1] = high[1];
  }
}

}  // namespace quire::kernels
