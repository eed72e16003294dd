// Dot products for AVX2, with products of pairs of 16-bit integers. The AVX2 product of bytes adds two
// products into 16 bits, which could saturate with 4-bit codes; to avoid that, the high and low bytes of
// activations need two 16-bit sums and one 32-bit sum. Measured, this was slower: 4 rows of 384 x 2048 took
// 63 us (52 with two rows at a time) instead of 40, and one row 14 us instead of 15.
#pragma once

namespace quire::kernels {
namespace {

QUIRE_LANE_INLINE I32 every_byte(I32, int32_t byte) {
  return splat_int(byte * 0x01010101);
}

// Stores the activations of a quad in the order 4q, 4q + 2, 4q + 1, 4q + 3.
template <int kStored>
QUIRE_LANE_INLINE void store_activations(int8_t* block, int half, I32 codes) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block + 32 * half),
                      _mm256_shuffle_epi8(pack_int16(codes), order));
}

QUIRE_LANE_INLINE I32 even_bytes(I32 x) {
  return bit_and(x, splat_int(0x00ff00ff));
}
QUIRE_LANE_INLINE I32 odd_bytes(I32 x) {
  return {_mm256_srli_epi16(x.a, 8), _mm256_srli_epi16(x.b, 8)};
}

// The sum is pinned in a register: GCC would add up all products of a block in a tree, which with sixteen
// registers spills to the stack, at less than half the speed.
QUIRE_LANE_INLINE void add_pairs(I32& sum, I32 codes, I32 x) {
  sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(codes.a, x.a));
  sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(codes.b, x.b));
  keep_in_register(sum);
}

template <int kRows, int kPanels, int kStored>
struct Dots {
  static_assert(kPanels == 1);
  static constexpr int kChains = kRows == 1 ? 2 : 1;
  I32 sums[kRows][kChains];

  QUIRE_LANE_INLINE void clear() {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int c = 0; c < kChains; ++c) sums[r][c] = splat_int(0);
    }
  }
  QUIRE_LANE_INLINE I32 sum(int r, int) const {
    if constexpr (kChains == 2) return add(sums[r][0], sums[r][1]);
    return sums[r][0];
  }

  template <int kBits, typename Value>
  QUIRE_LANE_INLINE void add_block(const uint32_t* const (&codes)[1], const int8_t* x, Value value_of) {
    add_halves<kBits, false>(codes, x, value_of, []() __attribute__((always_inline)){});
  }
  // With kSplit, calls `between` after the first 16 rows, whose quads come first (quad_of_take).
  template <int kBits, bool kSplit, typename Value, typename Between>
  QUIRE_LANE_INLINE void add_halves(const uint32_t* const (&codes)[1], const int8_t* x, Value value_of,
                                    Between between) {
    const uint32_t* words = codes[0];
    const auto word = [words](int w) __attribute__((always_inline)) {
      I32 lanes = load_int(words + 16 * w);
      keep_in_register(lanes);
      return lanes;
    };
    for_each_quad<kBits>(
        word, [&](int taken, I32 quads) __attribute__((always_inline)) {
          const int q = quad_of_take<kBits, kSplit>(taken);
          if (kSplit && q == 4) between();
          quads = value_of(quads);
          const I32 even = even_bytes(quads);
          const I32 odd = odd_bytes(quads);
#pragma GCC unroll 4
          for (int r = 0; r < kRows; ++r) {
            const int8_t* row = x + r * kBlockBytes<kStored> + 8 * q;
            add_pairs(sums[r][0], even, splat_int(load_quad(row)));
            add_pairs(sums[r][kChains - 1], odd, splat_int(load_quad(row + 4)));
          }
        });
  }
};

}  // namespace
}  // namespace quire::kernels
