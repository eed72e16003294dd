// From packed planes to f16 weights in registers. See matrix.h for the layout.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/matrix.h"
#include "kernels/cuda/ptx.cuh"

namespace quire::kernels {

constexpr uint32_t kMagic = 0x64006400U;  // two f16 1024.0

// Bit of a 16-bit half where the high-plane field of pair h lies (1-bit planes: of 3 and 5 bit codes).
__host__ __device__ constexpr int high_bit_of_3(int h) {
  const int s = h / 4, q = h % 4;
  return s == 0 ? 2 * q : s == 1 ? 2 * q + 1 : s == 2 ? 8 + 2 * q : 9 + 2 * q;
}
__host__ __device__ constexpr int high_bit_of_5(int h) {
  const int s = h / 2, q = h % 2;
  return s < 4 ? s + 4 * q : 8 + (s - 4) + 4 * q;
}
// 2-bit high plane of 6 bit codes: pair h lies in word h / 8.
__host__ __device__ constexpr int high_bit_of_6(int h) {
  const int s = (h % 8) / 2, q = h % 2;
  return (s < 2 ? 2 * s : 8 + 2 * (s - 2)) + 4 * q;
}

__device__ __forceinline__ uint32_t shifted(uint32_t v, int left) {
  return left >= 0 ? v << left : v >> -left;
}

// raw = 1024 + code * 2^p, zero in units of codes: (raw - 1024) / 2^p - zero, exact.
__device__ __forceinline__ __half2 centred(uint32_t raw, int p, float zero) {
  const float inverse = 1.0f / static_cast<float>(1 << p);
  return __hfma2(half2_of(raw), __float2half2_rn(inverse), __float2half2_rn(-(1024.0f * inverse + zero)));
}

// A lane's words of a tile, low plane first: kBits words. `At` reads 16, 8 or 4 bytes at an offset into the
// tile.
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

// Straight from memory: read once, so not kept in the L1.
struct GlobalTile {
  const uint8_t* tile;
  __device__ __forceinline__ uint4 four(int offset) const {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(tile + offset));
    return v;
  }
  __device__ __forceinline__ uint2 two(int offset) const {
    uint2 v;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(tile + offset));
    return v;
  }
  __device__ __forceinline__ uint32_t one(int offset) const {
    uint32_t v;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(tile + offset));
    return v;
  }
};

// The 16 pairs of a lane as code - zero, still without scale.
template <int kBits>
__device__ __forceinline__ void decode_words(const uint32_t (&raw)[kBits], __half2 (&w)[16], float zero) {
  if constexpr (kBits == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t upper = raw[i] >> 8;
      w[4 * i] = centred(and_or(raw[i], 0x000f000f, kMagic), 0, zero);
      w[4 * i + 1] = centred(and_or(raw[i], 0x00f000f0, kMagic), 4, zero);
      w[4 * i + 2] = centred(and_or(upper, 0x000f000f, kMagic), 0, zero);
      w[4 * i + 3] = centred(and_or(upper, 0x00f000f0, kMagic), 4, zero);
    }
  } else if constexpr (kBits == 2 || kBits == 3) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const uint32_t low = (s & 1) ? raw[s / 2] >> 8 : raw[s / 2];
      const uint32_t top = kBits == 3 ? shifted(raw[kBits - 1], s == 0   ? 2
                                                                : s == 1 ? 1
                                                                : s == 2 ? -6
                                                                         : -7)
                                      : 0;
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        uint32_t bits = and_or(low, 0x00030003U << (2 * q), kMagic);
        if constexpr (kBits == 3) bits = and_or(top, 0x00040004U << (2 * q), bits);
        w[4 * s + q] = centred(bits, 2 * q, zero);
      }
    }
  } else if constexpr (kBits == 5) {
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      const uint32_t low = (s & 1) ? raw[s / 2] >> 8 : raw[s / 2];
      const uint32_t top = shifted(raw[4], s < 4 ? 4 - s : -s);
      w[2 * s] = centred(and_or(top, 0x00100010, and_or(low, 0x000f000f, kMagic)), 0, zero);
      w[2 * s + 1] = centred(and_or(top, 0x01000100, and_or(low, 0x00f000f0, kMagic)), 4, zero);
    }
  } else if constexpr (kBits == 6) {
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      const uint32_t low = (s & 1) ? raw[s / 2] >> 8 : raw[s / 2];
      const int kind = s % 4;
      const uint32_t top = shifted(s < 4 ? raw[4] : raw[5], kind == 0   ? 4
                                                            : kind == 1 ? 2
                                                            : kind == 2 ? -4
                                                                        : -6);
      w[2 * s] = centred(and_or(top, 0x00300030, and_or(low, 0x000f000f, kMagic)), 0, zero);
      w[2 * s + 1] = centred(and_or(top, 0x03000300, and_or(low, 0x00f000f0, kMagic)), 4, zero);
    }
  } else if constexpr (kBits == 8) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      w[2 * i] = centred(and_or(raw[i], 0x00ff00ff, kMagic), 0, zero);
      w[2 * i + 1] = centred(and_or(raw[i] >> 8, 0x00ff00ff, kMagic), 0, zero);
    }
  } else {
    static_assert(kBits == 16);
#pragma unroll
    for (int h = 0; h < 16; ++h) w[h] = half2_of(raw[h]);
  }
}

// Raw 4-bit codes plus an offset for each of the lane's columns g + 8q: fields of even q lie at 2^0, of odd q
// at 2^4.
__device__ __forceinline__ void decode_shifted_words(const uint32_t (&raw)[4], const __half2 (&offset)[4],
                                                     __half2 (&w)[16]) {
  const __half2 one = __float2half2_rn(1.0f), sixteenth = __float2half2_rn(0.0625f);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t upper = raw[i] >> 8;
    const __half2 even = offset[2 * (i / 2)], odd = offset[2 * (i / 2) + 1];
    w[4 * i] = __hfma2(half2_of(and_or(raw[i], 0x000f000f, kMagic)), one, even);
    w[4 * i + 1] = __hfma2(half2_of(and_or(raw[i], 0x00f000f0, kMagic)), sixteenth, odd);
    w[4 * i + 2] = __hfma2(half2_of(and_or(upper, 0x000f000f, kMagic)), one, even);
    w[4 * i + 3] = __hfma2(half2_of(and_or(upper, 0x00f000f0, kMagic)), sixteenth, odd);
  }
}

// Scales of a lane's columns g + 8q from their nibbles: f16(f16((nibble + 1)^2) * group scale), as f32.
__device__ __forceinline__ void exl2_column_scales(uint32_t nibbles, uint32_t group_scale, float (&s)[4]) {
  const uint32_t apart = nibbles | nibbles << 12;  // two nibbles in the two halves
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const __half2 root = centred(and_or(apart >> (8 * i), 0x000f000f, kMagic), 0, -1.0f);
    const __half2 scale = __hmul2(__hmul2(root, root), half2_of(group_scale));
    s[2 * i] = __low2float(scale);
    s[2 * i + 1] = __high2float(scale);
  }
}

// Multiplies each pair by the scale of its column, an f16 value: column g + 8q of the lane is q = 2i + (r &
// 1).
__device__ __forceinline__ void apply_scales(__half2 (&w)[16], const float (&s)[4]) {
#pragma unroll
  for (int h = 0; h < 16; ++h) w[h] = __hmul2(w[h], __float2half2_rn(s[2 * (h / 8) + (h & 1)]));
}

}  // namespace quire::kernels
