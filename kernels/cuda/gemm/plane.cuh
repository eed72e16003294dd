// Decodes packed planes to f16 weights in registers. See matrix.h for the layout.
#pragma once

#include <cuda_fp16.h>
#include <type_traits>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/matrix.h"

namespace quire::kernels {

constexpr uint32_t kMagic = 0x64006400U;  // two f16 1024.0

template <TileKind kKind>
constexpr uint32_t kRecordBytes = scale_bytes(kKind);
template <TileKind kKind>
constexpr bool kIsGptq = kKind == TileKind::gptq || kKind == TileKind::gptq8;
// True if the sums of a group are scaled, and not its weights.
template <TileKind kKind>
constexpr bool kScalesSums = kKind != TileKind::dense&& kKind != TileKind::exl2&& kKind !=
                             TileKind::blocks&& kKind != TileKind::trellis;
// Bit width of kinds whose codes all have the same width, otherwise 0.
template <TileKind kKind>
constexpr int kOnlyBits = kKind == TileKind::gptq || kKind == TileKind::mxfp4  ? 4
                          : kKind == TileKind::gptq8 || kKind == TileKind::fp8 ? 8
                          : kKind == TileKind::dense                           ? 16
                                                                               : 0;

// Return the bit of a 16-bit half at which the high-plane field of pair h lies (1-bit planes of 3 and 5 bit
// codes).
__host__ __device__ constexpr int high_bit_of_3(int h) {
  const int s = h / 4, q = h % 4;
  return s == 0 ? 2 * q : s == 1 ? 2 * q + 1 : s == 2 ? 8 + 2 * q : 9 + 2 * q;
}
__host__ __device__ constexpr int high_bit_of_5(int h) {
  const int s = h / 2, q = h % 2;
  return s < 4 ? s + 4 * q : 8 + (s - 4) + 4 * q;
}
// Returns the same for the 2-bit high plane of 6 bit codes; pair h lies in word h / 8.
__host__ __device__ constexpr int high_bit_of_6(int h) {
  const int s = (h % 8) / 2, q = h % 2;
  return (s < 2 ? 2 * s : 8 + 2 * (s - 2)) + 4 * q;
}

__device__ __forceinline__ uint32_t shifted(uint32_t v, int left) {
  return left >= 0 ? v << left : v >> -left;
}

// Loads a lane's words of a tile, low plane first: kBits words. `At` reads 16, 8 or 4 bytes at an offset into
// the tile.
template <int kBits, typename At>
__device__ __forceinline__ void fetch_words(At at, int lane, uint32_t (&raw)[kBits]) {
  if constexpr (kBits == 2 || kBits == 3) {
    const uint2 v = at.two(lane * 8);
    raw[0] = v.x;
    raw[1] = v.y;
    if constexpr (kBits == 3) raw[2] = at.one(256 + lane * 4);
  } else {
#pragma unroll
    for (int plane = 0; plane < kBits / 4; ++plane) {
      const uint4 v = at.four(plane * 512 + lane * 16);
      raw[4 * plane] = v.x;
      raw[4 * plane + 1] = v.y;
      raw[4 * plane + 2] = v.z;
      raw[4 * plane + 3] = v.w;
    }
    if constexpr (kBits == 5) raw[4] = at.one(512 + lane * 4);
    if constexpr (kBits == 6) {
      const uint2 v = at.two(512 + lane * 8);
      raw[4] = v.x;
      raw[5] = v.y;
    }
  }
}

struct SharedTile {
  uint32_t tile;
  __device__ __forceinline__ uint4 four(int offset) const { return load_shared_16(tile + offset); }
  __device__ __forceinline__ uint2 two(int offset) const { return load_shared_8(tile + offset); }
  __device__ __forceinline__ uint32_t one(int offset) const { return load_shared_4(tile + offset); }
};

// Reads a tile directly from global memory.
struct GlobalTile {
  const uint8_t* tile;
  __device__ __forceinline__ uint4 four(int offset) const { return load_once_16(tile + offset); }
  __device__ __forceinline__ uint2 two(int offset) const { return load_once_8(tile + offset); }
  __device__ __forceinline__ uint32_t one(int offset) const { return load_once_4(tile + offset); }
};

// Words of a lane for its 16 columns of a half strip, low plane first; the two codes of a pair lie in one
// word.
template <int kBits>
constexpr int kHalfWords = kBits == 2   ? 1
                           : kBits <= 4 ? 2
                           : kBits <= 6 ? 3
                                        : kBits / 2;

// Loads a lane's words of one half of a tile in shared memory. Bits of words that both halves share are
// shifted to where the first half has them.
template <int kBits>
__device__ __forceinline__ void fetch_half(uint32_t tile, int lane, int half,
                                           uint32_t (&raw)[kHalfWords<kBits>]) {
  if constexpr (kBits == 2 || kBits == 3) {
    raw[0] = load_shared_4(tile + lane * 8 + half * 4);
    if constexpr (kBits == 3) raw[1] = load_shared_4(tile + 256 + lane * 4) >> (8 * half);
  } else if constexpr (kBits <= 6) {
    const uint2 low = load_shared_8(tile + lane * 16 + half * 8);
    raw[0] = low.x;
    raw[1] = low.y;
    if constexpr (kBits == 5) raw[2] = load_shared_4(tile + 512 + lane * 4) >> (8 * half);
    if constexpr (kBits == 6) raw[2] = load_shared_4(tile + 512 + lane * 8 + half * 4);
  } else {
#pragma unroll
    for (int plane = 0; plane < kBits / 8; ++plane) {
      const uint4 v = load_shared_16(tile + half * (kBits * 64) + plane * 512 + lane * 16);
      raw[4 * plane] = v.x;
      raw[4 * plane + 1] = v.y;
      raw[4 * plane + 2] = v.z;
      raw[4 * plane + 3] = v.w;
    }
  }
}

// Scale and offset that turn codes of EXL2, or of blocks, in columns g and g + 8 of a half strip into
// weights. A field at 2^p is an f16 subnormal, code * 2^(p - 24); one multiply-add computes (code - middle) *
// scale, or code * scale + offset, rounded once.
template <int kBits>
struct ScaledColumns {
  static constexpr bool kFourPlaces = kBits == 2 || kBits == 3;  // 2^0, 2^2, 2^4, 2^6; otherwise 2^0 and 2^4
  __half2 factor[kFourPlaces ? 4 : 2];
  __half2 offset[2];

  // `scales` holds 2^24 times the scales of the two columns.
  explicit __device__ __forceinline__ ScaledColumns(__half2 scales)
      : ScaledColumns(scales, __hmul2(scales, __float2half2_rn(-static_cast<float>(1 << (kBits - 1)) /
                                                               kExl2CodeUnit))) {}
  __device__ __forceinline__ ScaledColumns(__half2 scales, __half2 offsets) {
    const __half2 placed =
        kBits == 8 ? scales : __hmul2(scales, __floats2half2_rn(1.0f, kFourPlaces ? 0.25f : 0.0625f));
    factor[0] = __low2half2(scales);
    factor[1] = __high2half2(placed);
    if constexpr (kFourPlaces) {
      const __half2 above = __hmul2(placed, __float2half2_rn(0.0625f));
      factor[2] = __low2half2(above);
      factor[3] = __high2half2(above);
    }
    offset[0] = __low2half2(offsets);
    offset[1] = __high2half2(offsets);
  }
  // Returns the weights of fields at the q-th position.
  __device__ __forceinline__ __half2 weights(uint32_t fields, int q) const {
    return __hfma2(half2_of(fields), factor[q], offset[q & 1]);
  }
};

// Decodes the 8 pairs of a half. If both halves share a word, kHalf selects the bits.
template <int kBits, int kHalf>
__device__ __forceinline__ void decode_half(const uint32_t (&raw)[kHalfWords<kBits>],
                                            const ScaledColumns<kBits>& columns, __half2* w) {
  if constexpr (kBits == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t upper = raw[i] >> 8;
      w[4 * i] = columns.weights(and_or(raw[i], 0x000f000f, 0), 0);
      w[4 * i + 1] = columns.weights(and_or(raw[i], 0x00f000f0, 0), 1);
      w[4 * i + 2] = columns.weights(and_or(upper, 0x000f000f, 0), 0);
      w[4 * i + 3] = columns.weights(and_or(upper, 0x00f000f0, 0), 1);
    }
  } else if constexpr (kBits == 2 || kBits == 3) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const uint32_t low = s == 1 ? raw[0] >> 8 : raw[0];
      const uint32_t top = kBits == 3 ? shifted(raw[kBits - 2], 2 - s - 8 * kHalf) : 0;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        uint32_t bits = and_or(low, 0x00030003U << (2 * q), 0);
        if constexpr (kBits == 3) bits = and_or(top, 0x00040004U << (2 * q), bits);
        w[4 * s + q] = columns.weights(bits, q);
      }
    }
  } else if constexpr (kBits == 5) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const uint32_t low = s == 1 || s == 3 ? raw[s / 2] >> 8 : raw[s / 2];
      const uint32_t top = shifted(raw[2], kHalf == 0 ? 4 - s : -4 - s);
      w[2 * s] = columns.weights(and_or(top, 0x00100010, and_or(low, 0x000f000f, 0)), 0);
      w[2 * s + 1] = columns.weights(and_or(top, 0x01000100, and_or(low, 0x00f000f0, 0)), 1);
    }
  } else if constexpr (kBits == 6) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const uint32_t low = s == 1 || s == 3 ? raw[s / 2] >> 8 : raw[s / 2];
      const uint32_t top = shifted(raw[2], s == 0 ? 4 : s == 1 ? 2 : s == 2 ? -4 : -6);
      w[2 * s] = columns.weights(and_or(top, 0x00300030, and_or(low, 0x000f000f, 0)), 0);
      w[2 * s + 1] = columns.weights(and_or(top, 0x03000300, and_or(low, 0x00f000f0, 0)), 1);
    }
  } else {
    static_assert(kBits == 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[2 * i] = columns.weights(and_or(raw[i], 0x00ff00ff, 0), 0);
      w[2 * i + 1] = columns.weights(and_or(raw[i] >> 8, 0x00ff00ff, 0), 1);
    }
  }
}

// Decodes f16, which needs no conversion.
template <int kWords>
__device__ __forceinline__ void decode_dense(const uint32_t (&raw)[kWords], __half2* w) {
#pragma unroll
  for (int h = 0; h < kWords; ++h) w[h] = half2_of(raw[h]);
}

// Calls with the words of each half of a lane's tile, the number of the half as a constant, and its pairs.
template <int kBits, typename Call>
__device__ __forceinline__ void with_halves(const uint32_t (&raw)[kBits], __half2 (&w)[16], Call call) {
  constexpr int kLow = kBits == 3 || kBits == 5 || kBits == 6 ? kHalfWords<kBits> - 1 : kHalfWords<kBits>;
  uint32_t words[kHalfWords<kBits>];
  __half2 pairs[8];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < kLow; ++i) words[i] = raw[half * kLow + i];
    if constexpr (kBits == 3 || kBits == 5) words[kLow] = raw[kBits - 1];
    if constexpr (kBits == 6) words[kLow] = raw[4 + half];
    if (half == 0) {
      call(words, std::integral_constant<int, 0>{}, pairs);
    } else {
      call(words, std::integral_constant<int, 1>{}, pairs);
    }
#pragma unroll
    for (int h = 0; h < 8; ++h) w[8 * half + h] = pairs[h];
  }
}

// Decodes the 16 pairs of a lane, both halves.
template <int kBits>
__device__ __forceinline__ void decode_words(const uint32_t (&raw)[kBits], const __half2 (&scales)[2],
                                             __half2 (&w)[16]) {
  with_halves<kBits>(raw, w,
                     [&]<int kHalf>(const auto& words, std::integral_constant<int, kHalf>, __half2* pairs) {
                       decode_half<kBits, kHalf>(words, ScaledColumns<kBits>(scales[kHalf]), pairs);
                     });
}

// Returns the offset that turns a gptq field into code - zero: fields of 4 bits lie at 2^0 for a lane's
// columns g and g + 16, at 2^4 for the others; fields of 8 bits all lie at 2^0.
__host__ __device__ constexpr float offset_of_zero(int zero, int bits, bool second) {
  return -(bits == 4 && second ? 64.0f : 1024.0f) - static_cast<float>(zero);
}

// Decodes raw codes of a half plus an offset for each of the lane's columns g and g + 8.
template <int kBits>
__device__ __forceinline__ void decode_shifted_half(const uint32_t (&raw)[kHalfWords<kBits>],
                                                    const __half2 (&offset)[2], __half2* w) {
  const __half2 one = __float2half2_rn(1.0f), sixteenth = __float2half2_rn(0.0625f);
  if constexpr (kBits == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t upper = raw[i] >> 8;
      w[4 * i] = __hfma2(half2_of(and_or(raw[i], 0x000f000f, kMagic)), one, offset[0]);
      w[4 * i + 1] = __hfma2(half2_of(and_or(raw[i], 0x00f000f0, kMagic)), sixteenth, offset[1]);
      w[4 * i + 2] = __hfma2(half2_of(and_or(upper, 0x000f000f, kMagic)), one, offset[0]);
      w[4 * i + 3] = __hfma2(half2_of(and_or(upper, 0x00f000f0, kMagic)), sixteenth, offset[1]);
    }
  } else {
    static_assert(kBits == 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w[2 * i] = __hfma2(half2_of(and_or(raw[i], 0x00ff00ff, kMagic)), one, offset[0]);
      w[2 * i + 1] = __hfma2(half2_of(and_or(raw[i] >> 8, 0x00ff00ff, kMagic)), one, offset[1]);
    }
  }
}

// Does the same for both halves.
template <int kBits>
__device__ __forceinline__ void decode_shifted_words(const uint32_t (&raw)[kBits], const __half2 (&offset)[4],
                                                     __half2 (&w)[16]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t words[kBits / 2];
#pragma unroll
    for (int i = 0; i < kBits / 2; ++i) words[i] = raw[half * (kBits / 2) + i];
    const __half2 offsets[2] = {offset[2 * half], offset[2 * half + 1]};
    __half2 pairs[8];
    decode_shifted_half<kBits>(words, offsets, pairs);
#pragma unroll
    for (int h = 0; h < 8; ++h) w[8 * half + h] = pairs[h];
  }
}

// Factor of decoded E4M3 values. E4M3 becomes f16 by moving its bits; the exponent bias of f16 is larger by
// 8, so the value is 2^8 times as large. This is exact, including f16 subnormals.
constexpr float kE4m3Unit = 256.0f;

// Returns the bits of a code in a half word, for the first or second pair.
__device__ __forceinline__ uint32_t e4m3_field(uint32_t code, bool second) {
  return (code & 0x80U) << (second ? 8 : 7) | (code & 0x7fU) << (second ? 7 : 0);
}

// Masks with and_or even if there is nothing to OR: the compiler would move plain C++ past the fence of the
// warpgroup products, and then insert another fence there.
template <int kWords>
__device__ __forceinline__ void decode_e4m3(const uint32_t (&raw)[kWords], __half2* w) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    w[2 * i] = half2_of(and_or(raw[i] << 7, 0x3f803f80, raw[i] << 1 & 0x80008000));
    w[2 * i + 1] = half2_of(and_or(raw[i], 0xbf80bf80, 0));
  }
}

// Returns the bits of an E2M1 code in a half word, for pair q of four: the first as in f16, the second three
// bits lower, the others with the sign separate from the rest. The exponent bias of f16 is larger by
// kE2m1UnitExponent. The conversion is exact; the smallest value, 0.5, becomes a subnormal.
__device__ __forceinline__ uint32_t e2m1_field(uint32_t code, int q) {
  const uint32_t sign = code >> 3, rest = code & 7U;
  return q == 0   ? sign << 15 | rest << 9
         : q == 1 ? sign << 12 | rest << 6
         : q == 2 ? sign << 14 | rest << 3
                  : sign << 13 | rest;
}

// Returns the upper byte of an f16, duplicated.
__device__ __forceinline__ __half2 factor_of(uint32_t factors, int column) {
  return half2_of((factors >> (8 * column) & 0xffU) * 0x01000100U);
}

// Decodes four pairs per word, with the factors of a lane's columns g and g + 8: bytes 0 and 1.
__device__ __forceinline__ void decode_e2m1_half(const uint32_t (&raw)[2], uint32_t factors, __half2* w) {
  const __half2 first = factor_of(factors, 0), second = factor_of(factors, 1);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    w[4 * i] = __hmul2(half2_of(and_or(raw[i], 0x8e008e00, 0)), first);
    w[4 * i + 1] = __hmul2(half2_of(and_or(raw[i] << 3, 0x8e008e00, 0)), second);
    w[4 * i + 2] = __hmul2(half2_of(and_or(raw[i] << 6, 0x0e000e00, raw[i] << 1 & 0x80008000)), first);
    w[4 * i + 3] = __hmul2(half2_of(and_or(raw[i] << 9, 0x0e000e00, raw[i] << 2 & 0x80008000)), second);
  }
}

// Does the same for both halves, with four factors.
__device__ __forceinline__ void decode_e2m1_words(const uint32_t (&raw)[4], uint32_t factors,
                                                  __half2 (&w)[16]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t words[2] = {raw[2 * half], raw[2 * half + 1]};
    decode_e2m1_half(words, factors >> (16 * half), w + 8 * half);
  }
}

// Returns exponent q of four as the power of two; 0 stays 0.
__device__ __forceinline__ float power_of_two(uint32_t exponents, int q) {
  const uint32_t placed = q == 3 ? exponents >> 1 : exponents << (23 - 8 * q);
  return __uint_as_float(placed & 0x7f800000U);
}

// Returns the scales of two columns from their nibbles, which lie at bits 0 and 16: f16((nibble + 1)^2 *
// group scale).
__device__ __forceinline__ __half2 exl2_two_scales(uint32_t nibbles, uint32_t group_scale) {
  const __half2 root = __hadd2(half2_of(and_or(nibbles, 0x000f000f, kMagic)), __float2half2_rn(-1023.0f));
  return __hmul2(__hmul2(root, root), half2_of(group_scale));
}

// Computes the scales of a lane's columns g + 8q.
__device__ __forceinline__ void exl2_column_scales(uint32_t nibbles, uint32_t group_scale, __half2 (&s)[2]) {
  const uint32_t apart = nibbles | nibbles << 12;  // two nibbles in the two halves
  s[0] = exl2_two_scales(apart, group_scale);
  s[1] = exl2_two_scales(apart >> 8, group_scale);
}

// Unpack the scales of two adjacent gptq columns, and the offsets added to their raw codes.
__device__ __forceinline__ void gptq_two_scales(uint32_t scales, float* scale) {
  scale[0] = __low2float(half2_of(scales));
  scale[1] = __high2float(half2_of(scales));
}
__device__ __forceinline__ void gptq_two_offsets(uint32_t offsets, __half2* offset) {
  offset[0] = __low2half2(half2_of(offsets));
  offset[1] = __high2half2(half2_of(offsets));
}

// Multiplies each pair by the scale of its column, an f16 value: column g + 8q of the lane is q = 2i + (r &
// 1).
__device__ __forceinline__ void apply_scales(__half2 (&w)[16], const float (&s)[4]) {
#pragma unroll
  for (int h = 0; h < 16; ++h) w[h] = __hmul2(w[h], __float2half2_rn(s[2 * (h / 8) + (h & 1)]));
}

// Does the same with f32 scales.
__device__ __forceinline__ void apply_wide_scales(__half2 (&w)[16], const float (&s)[4]) {
#pragma unroll
  for (int h = 0; h < 16; ++h) {
    const float2 pair = __half22float2(w[h]);
    const float scale = s[2 * (h / 8) + (h & 1)];
    w[h] = __floats2half2_rn(pair.x * scale, pair.y * scale);
  }
}

}  // namespace quire::kernels
