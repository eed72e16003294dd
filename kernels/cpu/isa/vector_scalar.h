// Sixteen lanes as an array: the reference of the vector functions, in portable C++.
//
// min and max follow the SSE rule (the second operand if either is NaN). Sums over lanes add lane i + 8 to
// lane i, then i + 4, i + 2, i + 1. So every instruction set computes the same bits. Included by one source
// file only.
#pragma once

#include <cstdint>
#include <cstring>

#define QUIRE_LANE_INLINE inline __attribute__((always_inline))
#define QUIRE_EACH_LANE(i) for (int i = 0; i < 16; ++i)

namespace quire::kernels {
namespace {

constexpr int32_t kDenseRows = 2;
template <int kStored>
constexpr int32_t kQuantRows = 2;
constexpr int kQuantPanels = 1;
// Bytes in which activations of kBytes are stored: one byte would not be faster here.
template <int kBytes>
constexpr int kStoredBytes = 2;
// Steps of a loop whose numbers are constants if it is unrolled.
constexpr int kUnrolledSteps = 1;
constexpr int dense_panels_together(int) {
  return 1;
}

struct F32 {
  float v[16];
};
struct I32 {
  int32_t v[16];
};
struct Mask {
  bool v[16];
};

QUIRE_LANE_INLINE float float_of_bits(uint32_t bits) {
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}
QUIRE_LANE_INLINE uint32_t bits_of_float(float x) {
  uint32_t out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}

QUIRE_LANE_INLINE F32 splat(float x) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = x;
  return r;
}
QUIRE_LANE_INLINE F32 load(const float* p) {
  F32 r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
// Loads the first n lanes, 0 in the others; reads nothing beyond them.
QUIRE_LANE_INLINE F32 load_partial(const float* p, int32_t n) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = i < n ? p[i] : 0.0f;
  return r;
}
QUIRE_LANE_INLINE Mask first_lanes(int32_t n) {
  Mask r;
  QUIRE_EACH_LANE(i) r.v[i] = i < n;
  return r;
}
QUIRE_LANE_INLINE void store(float* p, F32 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
QUIRE_LANE_INLINE void store_partial(float* p, F32 a, int32_t n) {
  QUIRE_EACH_LANE(i) if (i < n) p[i] = a.v[i];
}

#define QUIRE_LANES(name, type, ...)            \
  QUIRE_LANE_INLINE type name(type a, type b) { \
    type r;                                     \
    QUIRE_EACH_LANE(i) r.v[i] = (__VA_ARGS__);  \
    return r;                                   \
  }
QUIRE_LANES(add, F32, a.v[i] + b.v[i])
QUIRE_LANES(sub, F32, a.v[i] - b.v[i])
QUIRE_LANES(mul, F32, a.v[i] * b.v[i])
QUIRE_LANES(div, F32, a.v[i] / b.v[i])
QUIRE_LANES(minimum, F32, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
QUIRE_LANES(maximum, F32, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
QUIRE_LANES(add, I32, a.v[i] + b.v[i])
QUIRE_LANES(sub, I32, a.v[i] - b.v[i])
QUIRE_LANES(mul, I32, a.v[i] * b.v[i])
// Modulo 2^32.
QUIRE_LANES(add_modulo, I32,
            static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i])))
QUIRE_LANES(mul_modulo, I32,
            static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) * static_cast<uint32_t>(b.v[i])))
QUIRE_LANES(bit_and, I32, a.v[i] & b.v[i])
QUIRE_LANES(bit_or, I32, a.v[i] | b.v[i])
QUIRE_LANES(bit_xor, I32, a.v[i] ^ b.v[i])
QUIRE_LANES(maximum, I32, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
#undef QUIRE_LANES

QUIRE_LANE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
  return r;
}
QUIRE_LANE_INLINE I32 as_int(F32 a) {
  I32 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
QUIRE_LANE_INLINE F32 as_float(I32 a) {
  F32 r;
  std::memcpy(r.v, a.v, sizeof r.v);
  return r;
}
// Rounds to nearest even.
QUIRE_LANE_INLINE I32 to_int(F32 a) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = static_cast<int32_t>(__builtin_lrintf(a.v[i]));
  return r;
}
QUIRE_LANE_INLINE F32 to_float(I32 a) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
QUIRE_LANE_INLINE Mask less(F32 a, F32 b) {
  Mask r;
  QUIRE_EACH_LANE(i) r.v[i] = a.v[i] < b.v[i];
  return r;
}
QUIRE_LANE_INLINE F32 select(Mask m, F32 a, F32 b) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = m.v[i] ? a.v[i] : b.v[i];
  return r;
}

QUIRE_LANE_INLINE I32 splat_int(int32_t x) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = x;
  return r;
}
QUIRE_LANE_INLINE I32 load_int(const uint32_t* p) {
  I32 r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}
// Keeps the compiler from loading a again at each use.
QUIRE_LANE_INLINE void keep_in_register(I32&) {}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_right(I32 a) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> kBits);
  return r;
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_left(I32 a) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kBits);
  return r;
}
QUIRE_LANE_INLINE I32 shift_right_by(I32 a, int bits) {
  QUIRE_EACH_LANE(i) a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> bits);
  return a;
}
// Copies the sign to the upper bits.
template <int kBits>
QUIRE_LANE_INLINE I32 shift_right_signed(I32 a) {
  QUIRE_EACH_LANE(i) a.v[i] >>= kBits;
  return a;
}
// Returns the sum of the four unsigned bytes of each lane.
QUIRE_LANE_INLINE I32 sum_bytes(I32 a) {
  QUIRE_EACH_LANE(i) {
    const auto x = static_cast<uint32_t>(a.v[i]);
    a.v[i] = static_cast<int32_t>((x & 255U) + ((x >> 8) & 255U) + ((x >> 16) & 255U) + (x >> 24));
  }
  return a;
}
// Returns the bits of a selected by the mask, and otherwise those of b.
QUIRE_LANE_INLINE I32 choose(I32 mask, I32 a, I32 b) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = (a.v[i] & mask.v[i]) | (b.v[i] & ~mask.v[i]);
  return r;
}
// Returns sum + the products of the four bytes of a lane: unsigned codes, signed x.
QUIRE_LANE_INLINE I32 dot_quads(I32 sum, I32 codes, I32 x) {
  QUIRE_EACH_LANE(i) {
    for (int byte = 0; byte < 4; ++byte) {
      sum.v[i] += static_cast<uint8_t>(codes.v[i] >> (8 * byte)) * static_cast<int8_t>(x.v[i] >> (8 * byte));
    }
  }
  return sum;
}

QUIRE_LANE_INLINE float half_bits_to_float(uint32_t h) {
  const uint32_t sign = (h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fU;
  const uint32_t mantissa = h & 0x3ffU;
  if (exponent == 0x1f) return float_of_bits(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0) return float_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}
QUIRE_LANE_INLINE uint16_t float_to_half_bits(float x) {
  const uint32_t bits = bits_of_float(x);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  }
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Adding 0.5 moves the multiple of 2^-24 to the low mantissa bits, rounded to even.
    const float shifted = float_of_bits(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of_float(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

QUIRE_LANE_INLINE F32 load_half(const uint16_t* p) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = half_bits_to_float(p[i]);
  return r;
}
QUIRE_LANE_INLINE F32 load_bfloat(const uint16_t* p) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = float_of_bits(static_cast<uint32_t>(p[i]) << 16);
  return r;
}
// Loads E4M3 codes, none of which is NaN, times 2^-8: exponent and mantissa go to where a half has them.
QUIRE_LANE_INLINE F32 load_float8(const uint8_t* p) {
  F32 r;
  QUIRE_EACH_LANE(i)
  r.v[i] = half_bits_to_float(static_cast<uint16_t>((p[i] & 0x80U) << 8 | (p[i] & 0x7fU) << 7));
  return r;
}
QUIRE_LANE_INLINE void store_half(uint16_t* p, F32 a) {
  QUIRE_EACH_LANE(i) p[i] = float_to_half_bits(a.v[i]);
}
// The lanes must fit 8 bits.
QUIRE_LANE_INLINE void store_bytes(uint8_t* p, I32 a) {
  QUIRE_EACH_LANE(i) p[i] = static_cast<uint8_t>(a.v[i]);
}
QUIRE_LANE_INLINE I32 load_bytes(const uint8_t* p) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = p[i];
  return r;
}
QUIRE_LANE_INLINE I32 load_signed_bytes(const uint8_t* p) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = static_cast<int8_t>(p[i]);
  return r;
}
// Loads unsigned integers of 16 bits.
QUIRE_LANE_INLINE I32 load_short(const uint16_t* p) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = p[i];
  return r;
}
// Moves each lane to the next one, and the last of eight to the first of them.
QUIRE_LANE_INLINE I32 rotate_eights(I32 a) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = a.v[(i & 8) | ((i - 1) & 7)];
  return r;
}
// Swaps each lane with the one at a distance of kDistance: 1, 2, 4 or 8.
template <int kDistance>
QUIRE_LANE_INLINE F32 exchange_lanes(F32 a) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = a.v[i ^ kDistance];
  return r;
}
// Rounds to half and back. The values must be 0 or normal halves.
QUIRE_LANE_INLINE F32 round_half(F32 a) {
  QUIRE_EACH_LANE(i) a.v[i] = half_bits_to_float(float_to_half_bits(a.v[i]));
  return a;
}
// Loads 8 bytes into 16 lanes, lane 2i from the low half of byte i.
QUIRE_LANE_INLINE I32 load_nibbles(const uint8_t* p) {
  I32 r;
  QUIRE_EACH_LANE(i) r.v[i] = (p[i / 2] >> (4 * (i % 2))) & 15;
  return r;
}
// load_table loads 16 bytes; lookup_bytes uses them to translate codes of 4 bits, four per lane.
QUIRE_LANE_INLINE I32 load_table(const uint8_t* p) {
  I32 r;
  QUIRE_EACH_LANE(i) std::memcpy(&r.v[i], p + 4 * (i % 4), 4);
  return r;
}
QUIRE_LANE_INLINE I32 lookup_bytes(I32 table, I32 codes) {
  uint8_t bytes[16];
  std::memcpy(bytes, table.v, sizeof bytes);
  QUIRE_EACH_LANE(i) {
    uint32_t values = 0;
    for (int byte = 0; byte < 4; ++byte)
      values |= uint32_t{bytes[(static_cast<uint32_t>(codes.v[i]) >> (8 * byte)) & 15U]} << (8 * byte);
    codes.v[i] = static_cast<int32_t>(values);
  }
  return codes;
}
QUIRE_LANE_INLINE F32 lookup(const float* table, I32 index) {
  F32 r;
  QUIRE_EACH_LANE(i) r.v[i] = table[index.v[i]];
  return r;
}

QUIRE_LANE_INLINE float sum_lanes(F32 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.v[i] += a.v[i + width];
  }
  return a.v[0];
}
QUIRE_LANE_INLINE float max_lanes(F32 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.v[i] = a.v[i] > a.v[i + width] ? a.v[i] : a.v[i + width];
  }
  return a.v[0];
}
QUIRE_LANE_INLINE int32_t max_lanes(I32 a) {
  int32_t r = a.v[0];
  QUIRE_EACH_LANE(i) r = r > a.v[i] ? r : a.v[i];
  return r;
}
QUIRE_LANE_INLINE int32_t sum_lanes(I32 a) {
  int32_t r = 0;
  QUIRE_EACH_LANE(i) r += a.v[i];
  return r;
}

// Rows become columns: out[j] lane i = in[i] lane j.
QUIRE_LANE_INLINE void transpose(F32 (&rows)[16]) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < i; ++j) {
      const float t = rows[i].v[j];
      rows[i].v[j] = rows[j].v[i];
      rows[j].v[i] = t;
    }
  }
}

}  // namespace
}  // namespace quire::kernels
