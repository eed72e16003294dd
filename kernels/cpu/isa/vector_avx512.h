// Sixteen lanes in one AVX-512 register. Included by one source file only; see vector_scalar.h for the
// meaning of each function.
#pragma once

#include <cstdint>
#include <immintrin.h>

#define QUIRE_LANE_INLINE inline __attribute__((always_inline))

namespace quire::kernels {
namespace {

constexpr int32_t kDenseRows = 8;
// Four rows with two panels, with a high and a low sum each, use half of the registers. Measured on Zen 5
// with 4 bits: six rows with two panels 76 % of the peak, eight with one 79 %, four with three 74 %, four
// with two 86 %.
//
// Activations of one byte need half of the sums, so eight rows with two panels use as many registers.
template <int kStored>
constexpr int32_t kQuantRows = kStored == 1 ? 8 : 4;
constexpr int kQuantPanels = 2;
// Bytes in which activations of kBytes are stored.
template <int kBytes>
constexpr int kStoredBytes = kBytes;
constexpr int kUnrolledSteps = 32;
constexpr int dense_panels_together(int rows) {
  return rows >= 8 ? 1 : rows == 4 ? 2 : 4;
}

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
using Mask = __mmask16;

QUIRE_LANE_INLINE F32 splat(float x) {
  return {_mm512_set1_ps(x)};
}
QUIRE_LANE_INLINE F32 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
QUIRE_LANE_INLINE Mask first_lanes(int32_t n) {
  return static_cast<Mask>((1U << n) - 1U);
}
QUIRE_LANE_INLINE F32 load_partial(const float* p, int32_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
QUIRE_LANE_INLINE void store(float* p, F32 a) {
  _mm512_storeu_ps(p, a.v);
}
QUIRE_LANE_INLINE void store_partial(float* p, F32 a, int32_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
QUIRE_LANE_INLINE F32 add(F32 a, F32 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
QUIRE_LANE_INLINE F32 sub(F32 a, F32 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
QUIRE_LANE_INLINE F32 mul(F32 a, F32 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
QUIRE_LANE_INLINE F32 div(F32 a, F32 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
QUIRE_LANE_INLINE F32 fma(F32 a, F32 b, F32 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
QUIRE_LANE_INLINE F32 minimum(F32 a, F32 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
QUIRE_LANE_INLINE F32 maximum(F32 a, F32 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 as_int(F32 a) {
  return {_mm512_castps_si512(a.v)};
}
QUIRE_LANE_INLINE F32 as_float(I32 a) {
  return {_mm512_castsi512_ps(a.v)};
}
QUIRE_LANE_INLINE I32 to_int(F32 a) {
  return {_mm512_cvtps_epi32(a.v)};
}
QUIRE_LANE_INLINE F32 to_float(I32 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
QUIRE_LANE_INLINE Mask less(F32 a, F32 b) {
  return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ);
}
QUIRE_LANE_INLINE F32 select(Mask m, F32 a, F32 b) {
  return {_mm512_mask_blend_ps(m, b.v, a.v)};
}

QUIRE_LANE_INLINE I32 splat_int(int32_t x) {
  return {_mm512_set1_epi32(x)};
}
QUIRE_LANE_INLINE I32 load_int(const uint32_t* p) {
  return {_mm512_loadu_si512(p)};
}
QUIRE_LANE_INLINE I32 add(I32 a, I32 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 sub(I32 a, I32 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 mul(I32 a, I32 b) {
  return {_mm512_mullo_epi32(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 add_modulo(I32 a, I32 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 mul_modulo(I32 a, I32 b) {
  return {_mm512_mullo_epi32(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 bit_and(I32 a, I32 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 bit_or(I32 a, I32 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 bit_xor(I32 a, I32 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
QUIRE_LANE_INLINE I32 maximum(I32 a, I32 b) {
  return {_mm512_max_epi32(a.v, b.v)};
}
QUIRE_LANE_INLINE void keep_in_register(I32& a) {
  __asm__("" : "+v"(a.v));
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_right(I32 a) {
  return {_mm512_srli_epi32(a.v, kBits)};
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_left(I32 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}
QUIRE_LANE_INLINE I32 choose(I32 mask, I32 a, I32 b) {
  return {_mm512_ternarylogic_epi32(mask.v, a.v, b.v, 0xca)};
}
QUIRE_LANE_INLINE I32 dot_quads(I32 sum, I32 codes, I32 x) {
  return {_mm512_dpbusd_epi32(sum.v, codes.v, x.v)};
}

QUIRE_LANE_INLINE I32 shift_right_by(I32 a, int bits) {
  return {_mm512_srli_epi32(a.v, static_cast<unsigned>(bits))};
}
template <int kBits>
QUIRE_LANE_INLINE I32 shift_right_signed(I32 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}
QUIRE_LANE_INLINE I32 sum_bytes(I32 a) {
  return {_mm512_dpbusd_epi32(_mm512_setzero_si512(), a.v, _mm512_set1_epi8(1))};
}

QUIRE_LANE_INLINE F32 load_half(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
QUIRE_LANE_INLINE F32 load_bfloat(const uint16_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
QUIRE_LANE_INLINE F32 load_float8(const uint8_t* p) {
  const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  // Sign extension fills the upper bits: clear the extra bit.
  const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  return {_mm512_cvtph_ps(_mm256_and_si256(shifted, _mm256_set1_epi16(-0x4001)))};
}
QUIRE_LANE_INLINE void store_half(uint16_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
QUIRE_LANE_INLINE I32 load_short(const uint16_t* p) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
QUIRE_LANE_INLINE I32 rotate_eights(I32 a) {
  const __m512i from = _mm512_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6, 15, 8, 9, 10, 11, 12, 13, 14);
  return {_mm512_permutexvar_epi32(from, a.v)};
}
template <int kDistance>
QUIRE_LANE_INLINE F32 exchange_lanes(F32 a) {
  if constexpr (kDistance == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
  if constexpr (kDistance == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (kDistance == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  if constexpr (kDistance == 1) return {_mm512_permute_ps(a.v, 0xb1)};
}
QUIRE_LANE_INLINE F32 round_half(F32 a) {
  return {_mm512_cvtph_ps(_mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
}
QUIRE_LANE_INLINE void store_bytes(uint8_t* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
QUIRE_LANE_INLINE I32 load_bytes(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
QUIRE_LANE_INLINE I32 load_signed_bytes(const uint8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
QUIRE_LANE_INLINE I32 load_nibbles(const uint8_t* p) {
  const __m128i pairs = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m128i low = _mm_and_si128(pairs, _mm_set1_epi16(15));
  const __m128i high = _mm_slli_epi16(_mm_srli_epi16(pairs, 4), 8);
  return {_mm512_cvtepu8_epi32(_mm_or_si128(low, high))};
}
QUIRE_LANE_INLINE I32 load_table(const uint8_t* p) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
QUIRE_LANE_INLINE I32 lookup_bytes(I32 table, I32 codes) {
  return {_mm512_shuffle_epi8(table.v, codes.v)};
}
QUIRE_LANE_INLINE F32 lookup(const float* table, I32 index) {
  return {_mm512_permutexvar_ps(index.v, _mm512_loadu_ps(table))};
}

QUIRE_LANE_INLINE float sum_lanes(F32 a) {
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
QUIRE_LANE_INLINE float max_lanes(F32 a) {
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
QUIRE_LANE_INLINE int32_t max_lanes(I32 a) {
  return _mm512_reduce_max_epi32(a.v);
}
QUIRE_LANE_INLINE int32_t sum_lanes(I32 a) {
  return _mm512_reduce_add_epi32(a.v);
}

// Rows become columns: out[j] lane i = in[i] lane j.
QUIRE_LANE_INLINE void transpose(F32 (&rows)[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  __m512 u[16];
  for (int i = 0; i < 16; i += 4) {
    u[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  // u[4q + c]: 128-bit part p holds column 4p + c of rows 4q..4q+3.
  for (int c = 0; c < 4; ++c) {
    const __m512 a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
    const __m512 b = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
    const __m512 d = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
    const __m512 e = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
    rows[c].v = _mm512_shuffle_f32x4(a, d, 0x88);
    rows[8 + c].v = _mm512_shuffle_f32x4(a, d, 0xdd);
    rows[4 + c].v = _mm512_shuffle_f32x4(b, e, 0x88);
    rows[12 + c].v = _mm512_shuffle_f32x4(b, e, 0xdd);
  }
}

}  // namespace
}  // namespace quire::kernels
