// Keys and values of quantized pages in shared memory, and their conversion into tensor-core operands. Keys
// are the operand with 16 rows, so that the 8 columns left for queries suit a GQA group. Lane (g, t) unpacks
// 16 of each 64 dimensions of keys g and g + 8 (key_slot) for the scores, and some dimensions of keys 2t +
// {0, 1, 8, 9} for the values. The sums are those of attention.cuh, with the roles of the operands exchanged.
#pragma once

#include "kernels/cuda/attention/attention.cuh"

namespace quire::kernels {

constexpr int kStepKeys = 16;  // k of a product over keys, rows of a product over dimensions

// Rows of codes of some keys or values in lines of 128 bytes, followed by their scales. The 16-byte pieces
// are swizzled so that lanes with different keys or dimensions have no bank conflicts.
template <int HD, KvFormat kFormat, int kNumKeys>
struct CodeSlot {
  static constexpr int kDim = HD;
  static constexpr int kBits = kFormat == KvFormat::q4 ? 4 : 8;
  static constexpr int kRowBytes = HD * kBits / 8;
  static constexpr int kScaleBytes = HD / 32 * 2;  // scales of a row
  static constexpr int kKeys = kNumKeys;
  static constexpr uint32_t kScalesAt = kKeys * kRowBytes;
  static constexpr uint32_t kBytes = kScalesAt + kKeys * kScaleBytes;

  // Adding 8 to `row` adds the bytes of 8 rows to the result.
  __device__ __forceinline__ static uint32_t place(int row, int byte) {
    const uint32_t turn = kRowBytes == 128  ? (row & 6) ^ (row & 1) << 2
                          : kRowBytes == 64 ? row & 6
                                            : row >> 1 & 2;
    return static_cast<uint32_t>(row * kRowBytes + byte) ^ turn << 4;
  }
};

template <int kWords>
__device__ __forceinline__ void load_words(uint32_t (&to)[kWords], uint32_t from) {
  if constexpr (kWords == 4) {
    const uint4 v = load_shared_16(from);
    to[0] = v.x;
    to[1] = v.y;
    to[2] = v.z;
    to[3] = v.w;
  } else if constexpr (kWords == 2) {
    const uint2 v = load_shared_8(from);
    to[0] = v.x;
    to[1] = v.y;
  } else {
    static_assert(kWords == 1);
    to[0] = load_shared_4(from);
  }
}

// Codes of 16 keys held by one lane, for the scores.
template <typename C>
struct KeyStep {
  static constexpr int kGroups = C::kDim / 64;
  static constexpr int kWords = C::kBits / 2;  // 16 codes of each 64
  uint32_t words[2][kGroups][kWords];
  uint32_t scales[2][kGroups];

  __device__ __forceinline__ void load(uint32_t slot, int step, int lane) {
    const int g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = step * kStepKeys + 8 * h;
#pragma unroll
      for (int i = 0; i < kGroups; ++i)
        load_words(words[h][i],
                   slot + C::place(g, t * (kWords * 4) + i * (kWords * 16)) + key * C::kRowBytes);
      load_words(scales[h], slot + C::kScalesAt + g * C::kScaleBytes + key * C::kScaleBytes);
    }
  }
  // Multiplies the 16 keys with 8 rows. `pick` selects the lane's scale from a pair and duplicates it.
  __device__ __forceinline__ void multiply(const uint32_t (&queries)[C::kDim / 16][2], uint32_t pick,
                                           uint32_t upper_bytes, float (&score)[4]) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      __half2 scale[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) scale[h] = half2_of(__byte_perm(scales[h][i], 0, pick));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        uint32_t key[4];
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          const int h = x & 1, half = x >> 1;
          if constexpr (C::kBits == 4) {
            key[x] = expand_q4_pair(words[h][i][j / 2], 2 * (j % 2) + half, scale[h]);
          } else {
            key[x] = expand_q8_pair(words[h][i][j], half, scale[h], upper_bytes);
          }
        }
        const int at = 4 * i + j;
        if (at == 0) {
          mma_16x8x16_first(score, key, queries[at][0], queries[at][1]);
        } else {
          mma_16x8x16(score, key, queries[at][0], queries[at][1]);
        }
      }
    }
  }
};

// Codes of 16 keys held by one lane, for the values: for each of 4 keys, an eighth of the warp's dimensions.
// The warp has one of kParts of all dimensions.
template <typename C, int kParts = 1>
struct ValueStep {
  static constexpr int kDims = C::kDim / 8 / kParts;
  static constexpr int kBytes = kDims * C::kBits / 8;
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;
  uint32_t words[4][kWords];
  uint32_t scales[4];

  // Returns the number of a lane's key i among the 16 keys, minus 2t.
  __device__ __forceinline__ static constexpr int key(int i) { return (i & 1) + 8 * (i >> 1); }

  __device__ __forceinline__ void load(uint32_t slot, int step, int lane, int part = 0) {
    const int t = lane & 3, number = part * 8 + (lane >> 2);
    const uint32_t first_scale = slot + C::kScalesAt + 2 * t * C::kScaleBytes + number * kDims / 32 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = step * kStepKeys + (key(i) & 8);
      const uint32_t from = slot + C::place(2 * t + (i & 1), number * kBytes) + row * C::kRowBytes;
      if constexpr (kBytes == 1) {
        words[i][0] = load_shared_1(from);
      } else if constexpr (kBytes == 2) {
        words[i][0] = load_shared_2(from);
      } else {
        load_words(words[i], from);
      }
      scales[i] = load_shared_2(first_scale + (step * kStepKeys + key(i)) * C::kScaleBytes);
    }
  }
  // Treats keys of the step from `live` on as zeros, because memory that was never written may contain NaN.
  __device__ __forceinline__ void clear_from(int live, int lane) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (2 * (lane & 3) + key(i) >= live) scales[i] = 0;
  }
  // out[j] += weight * value: tile j has the lane's dimensions 2j and 2j + 1.
  template <int kTiles>
  __device__ __forceinline__ void multiply(const uint32_t (&weights)[kTiles][2], uint32_t upper_bytes,
                                           float (&out)[kTiles][kDims / 2][4]) const {
    const __half2 scale[2] = {half2_of(half_pair(scales[0], scales[1])),
                              half2_of(half_pair(scales[2], scales[3]))};
    // Codes of each of two keys that one word of both holds.
    constexpr int kCodes = C::kBits == 4 && kDims >= 4 ? 4 : 2;
#pragma unroll
    for (int w = 0; w < kDims / kCodes; ++w) {
      uint32_t value[2][kCodes];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t x = words[2 * h][w / 2], y = words[2 * h + 1][w / 2];
        const uint32_t both = C::kBits == 4 ? __byte_perm(x, y, w % 2 == 0 ? 0x5410 : 0x7632)
                                            : __byte_perm(x, y, w % 2 == 0 ? 0x5140 : 0x7362);
#pragma unroll
        for (int i = 0; i < kCodes; ++i)
          value[h][i] = C::kBits == 4 ? expand_q4_pair(both, i, scale[h])
                                      : expand_q8_pair(both, i, scale[h], upper_bytes);
      }
#pragma unroll
      for (int i = 0; i < kCodes; i += 2) {
        const uint32_t a[4] = {value[0][i], value[0][i + 1], value[1][i], value[1][i + 1]};
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
          mma_16x8x16(out[n][(w * kCodes + i) / 2], a, weights[n][0], weights[n][1]);
      }
    }
  }
};

// Returns the selector that picks the scale of the lane's dimensions from a pair and duplicates it.
__device__ __forceinline__ uint32_t key_scale_pick(int lane) {
  return (lane & 3) < 2 ? 0x1010 : 0x3232;
}

// Returns kUpperBytes in a form that the compiler does not treat as a constant: with a constant, the other
// operand of the byte permutation would not fit into the instruction. `number` is not negative.
__device__ __forceinline__ uint32_t opaque_upper_bytes(int number) {
  return kUpperBytes | static_cast<uint32_t>(number < 0);
}

}  // namespace quire::kernels
