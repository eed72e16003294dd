// Sixteen lanes in two AVX2 registers. Included by one source file only; see vector_scalar.h for the meaning
// of each function.
#pragma once

#include <cstdint>
#include <immintrin.h>

#define QUIRE_LANE_INLINE inline __attribute__((always_inline))

namespace quire::kernels {
namespace {

// Four rows of two registers each (dense), or of three (dots_avx2.h), leave registers for operands among the
// sixteen.
constexpr int32_t kDenseRows = 4;
template <int kStored>
constexpr int32_t kQuantRows = 4;
constexpr int kQuantPanels = 1;
// Bytes in which activations of kBytes are stored: AVX2 multiplies 16-bit integers.
template <int kBytes>
constexpr int kStoredBytes = 2;
constexpr int kUnrolledSteps = 32;
constexpr int dense_panels_together(int rows) {
  return rows >= 4 ? 1 : rows == 2 ? 2 : 4;
}

struct F32 {
  __m256 a, b;
};
struct I32 {
  __m256i a, b;
};
using Mask = F32;

QUIRE_LANE_INLINE void keep_in_register(I32& x) {
  __asm__("" : "+x"(x.a), "+x"(x.b));
}

QUIRE_LANE_INLINE F32 splat(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
QUIRE_LANE_INLINE F32 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
QUIRE_LANE_INLINE I32 lanes_below(int32_t n) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_cmpgt_epi32(_mm256_set1_epi32(n), index),
          _mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), index)};
}
QUIRE_LANE_INLINE Mask first_lanes(int32_t n) {
  const I32 m = lanes_below(n);
  return {_mm256_castsi256_ps(m.a), _mm256_castsi256_ps(m.b)};
}
QUIRE_LANE_INLINE F32 load_partial(const float* p, int32_t n) {
  const I32 m = lanes_below(n);
  return {_mm256_maskload_ps(p, m.a), n > 8 ? _mm256_maskload_ps(p + 8, m.b) : _mm256_setzero_ps()};
}
QUIRE_LANE_INLINE void store(float* p, F32 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
QUIRE_LANE_INLINE void store_partial(float* p, F32 x, int32_t n) {
  const I32 m = lanes_below(n);
  _mm256_maskstore_ps(p, m.a, x.a);
  if (n > 8) _mm256_maskstore_ps(p + 8, m.b, x.b);
}

#define QUIRE_LANES(name, type, op)             \
  QUIRE_LANE_INLINE type name(type x, type y) { \
    return {op(x.a, y.a), op(x.b, y.b)};        \
  }
QUIRE_LANES(add, F32, _mm256_add_ps)
QUIRE_LANES(sub, F32, _mm256_sub_ps)
QUIRE_LANES(mul, F32, _mm256_mul_ps)
QUIRE_LANES(div, F32, _mm256_div_ps)
QUIRE_LANES(minimum, F32, _mm256_min_ps)
QUIRE_LANES(maximum, F32, _mm256_max_ps)
QUIRE_LANES(add, I32, _mm256_add_epi32)
QUIRE_LANES(sub, I32, _mm256_sub_epi32)
QUIRE_LANES(mul, I32, _mm256_mullo_epi32)
QUIRE_LANES(add_modulo, I32, _mm256_add_epi32)
QUIRE_LANES(mul_modulo, I32, _mm256_mullo_epi32)
QUIRE_LANES(bit_and, I32, _mm256_and_si256)
QUIRE_LANES(bit_or, I32, _mm256_or_si256)
QUIRE_LANES(bit_xor, I32, _mm256_xor_si256)
QUIRE_LANES(maximum, I32, _mm256_max_epi32)
#undef QUIRE_LANES

QUIRE_LANE_INLINE F32 fma(F32 x, F32 y, F32 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
QUIRE_LANE_INLINE I32 as_int(F32 x) {
  return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
QUIRE_LANE_INLINE F32 as_float(I32 x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
QUIRE_LANE_INLINE I32 to_int(F32 x) {
  return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
QUIRE_LANE_INLINE F32 to_float(I32 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
QUIRE_LANE_INLINE Mask less(F32 x, F32 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
QUIRE_LANE_INLINE F32 select(Mask m, F32 x, F32 y) {
  return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}

QUIRE_LANE_INLINE __m256i load_256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
QUIRE_LANE_INLINE __m128i load_128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
QUIRE_LANE_INLINE __m128i load_64(const void* p) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(p));
}

QUIRE_LANE_INLINE I32 splat_int(int32_t x) {
  const __m256i v = _mm256_set1_epi32(x);
  return {v, v};
}
QUIRE_LANE_INLINE I32 load_int(const uint32_t* p) {
  return {load_256(p), load_256(p + 8)};
}
QUIRE_LANE_INLINE I32 choose(I32 mask, I32 x, I32 y) {
  return {_mm256_or_si256(_mm256_and_si256(mask.a, x.a), _mm256_andnot_si256(mask.a, y.a)),
          _mm256_or_si256(_mm256_and_si256(mask.b, x.b), _mm256_andnot_si256(mask.b, y.b))};
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_right(I32 x) {
  return {_mm256_srli_epi32(x.a, kBits), _mm256_srli_epi32(x.b, kBits)};
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_left(I32 x) {
  return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}

QUIRE_LANE_INLINE I32 shift_right_by(I32 x, int bits) {
  return {_mm256_srli_epi32(x.a, bits), _mm256_srli_epi32(x.b, bits)};
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_right_signed(I32 x) {
  return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
QUIRE_LANE_INLINE __m256i sum_bytes(__m256i x) {
  const __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi8(1));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
QUIRE_LANE_INLINE I32 sum_bytes(I32 x) {
  return {sum_bytes(x.a), sum_bytes(x.b)};
}

QUIRE_LANE_INLINE F32 load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
}
QUIRE_LANE_INLINE F32 load_bfloat(const uint16_t* p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(p + 8)), 16))};
}
QUIRE_LANE_INLINE F32 load_float8(const uint8_t* p) {
  // Sign extension fills the upper bits: clear the extra bit.
  const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load_128(p)), 7);
  const __m256i halves = _mm256_and_si256(shifted, _mm256_set1_epi16(-0x4001));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
QUIRE_LANE_INLINE void store_half(uint16_t* p, F32 x) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, kRounding));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, kRounding));
}
QUIRE_LANE_INLINE __m256i pack_int16(I32 x) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
}
QUIRE_LANE_INLINE void store_bytes(uint8_t* p, I32 x) {
  const __m256i words = pack_int16(x);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
QUIRE_LANE_INLINE I32 load_bytes(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(load_64(p)), _mm256_cvtepu8_epi32(load_64(p + 8))};
}
QUIRE_LANE_INLINE I32 load_signed_bytes(const uint8_t* p) {
  return {_mm256_cvtepi8_epi32(load_64(p)), _mm256_cvtepi8_epi32(load_64(p + 8))};
}
QUIRE_LANE_INLINE I32 load_short(const uint16_t* p) {
  return {_mm256_cvtepu16_epi32(load_128(p)), _mm256_cvtepu16_epi32(load_128(p + 8))};
}
QUIRE_LANE_INLINE I32 rotate_eights(I32 x) {
  const __m256i from = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
  return {_mm256_permutevar8x32_epi32(x.a, from), _mm256_permutevar8x32_epi32(x.b, from)};
}
template <int kDistance>
QUIRE_LANE_INLINE F32 exchange_lanes(F32 x) {
  if constexpr (kDistance == 8) return {x.b, x.a};
  if constexpr (kDistance == 4)
    return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  constexpr int kOrder = kDistance == 2 ? 0x4e : 0xb1;
  return {_mm256_permute_ps(x.a, kOrder), _mm256_permute_ps(x.b, kOrder)};
}
QUIRE_LANE_INLINE F32 round_half(F32 x) {
  constexpr int kRounding = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_cvtph_ps(_mm256_cvtps_ph(x.a, kRounding)), _mm256_cvtph_ps(_mm256_cvtps_ph(x.b, kRounding))};
}
QUIRE_LANE_INLINE I32 load_nibbles(const uint8_t* p) {
  const __m128i pairs = _mm_cvtepu8_epi16(load_64(p));
  const __m128i low = _mm_and_si128(pairs, _mm_set1_epi16(15));
  const __m128i bytes = _mm_or_si128(low, _mm_slli_epi16(_mm_srli_epi16(pairs, 4), 8));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
QUIRE_LANE_INLINE __m256 lookup_8(__m256 low, __m256 high, __m256i index) {
  const __m256 use_high = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));  // shifts bit 3 to the sign
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index),
                          use_high);
}
QUIRE_LANE_INLINE I32 load_table(const uint8_t* p) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {table, table};
}
QUIRE_LANE_INLINE I32 lookup_bytes(I32 table, I32 codes) {
  return {_mm256_shuffle_epi8(table.a, codes.a), _mm256_shuffle_epi8(table.b, codes.b)};
}
QUIRE_LANE_INLINE F32 lookup(const float* table, I32 index) {
  const F32 t = load(table);
  return {lookup_8(t.a, t.b, index.a), lookup_8(t.a, t.b, index.b)};
}

QUIRE_LANE_INLINE float sum_lanes(F32 x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
QUIRE_LANE_INLINE float max_lanes(F32 x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
QUIRE_LANE_INLINE int32_t max_lanes(I32 x) {
  const __m256i eight = _mm256_max_epi32(x.a, x.b);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
QUIRE_LANE_INLINE int32_t sum_lanes(I32 x) {
  const __m256i eight = _mm256_add_epi32(x.a, x.b);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

QUIRE_LANE_INLINE void transpose_8(__m256 (&r)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  __m256 u[8];
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
    r[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
  }
}
// Rows become columns: out[j] lane i = in[i] lane j. Four 8 x 8 quarters, the off-diagonal two swapped.
QUIRE_LANE_INLINE void transpose(F32 (&rows)[16]) {
  __m256 top_left[8], top_right[8], bottom_left[8], bottom_right[8];
  for (int i = 0; i < 8; ++i) {
    top_left[i] = rows[i].a;
    top_right[i] = rows[i].b;
    bottom_left[i] = rows[8 + i].a;
    bottom_right[i] = rows[8 + i].b;
  }
  transpose_8(top_left);
  transpose_8(top_right);
  transpose_8(bottom_left);
  transpose_8(bottom_right);
  for (int i = 0; i < 8; ++i) {
    rows[i] = {top_left[i], bottom_left[i]};
    rows[8 + i] = {top_right[i], bottom_right[i]};
  }
}

}  // namespace
}  // namespace quire::kernels
