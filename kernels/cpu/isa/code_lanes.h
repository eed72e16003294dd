// Decodes the codes of a block from the words of code_layout.h to vectors of bytes.
#pragma once

namespace quire::kernels {
namespace {

// Returns the low kBits bits of each byte of x; join adds the other bits from y.
template <int kBits, typename Word>
QUIRE_LANE_INLINE Word low_bits(Word x) {
  return bit_and(x, every_byte(x, (1 << kBits) - 1));
}
template <int kBits, typename Word>
QUIRE_LANE_INLINE Word join(Word x, Word y) {
  return choose(every_byte(x, (1 << kBits) - 1), x, y);
}

// Calls take(q, codes) for the 8 quads of rows of a block: byte b of lane n is the code of row 4q + b of
// column n. word(i) loads vector i of the block. With 0 bits the codes need no decoding: word(0) is every
// quad (limits_lanes.h).
//
// Rows are stored in quads, not in the pairs of ExLlamaV2's layout: products of bytes need half as many
// vectors of codes as products of 16-bit integers, and so half the shifts and masks. On a Zen 5 core at 3.9
// GHz, 4 bits, one row of 384 x 2048: pairs 9.7 us, quads 4.1 us.
template <int kBits, typename Load, typename Take>
QUIRE_LANE_INLINE void for_each_quad(Load word, Take take) {
  using Word = decltype(word(0));
  if constexpr (kBits == 0) {
    const Word x = word(0);
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) take(q, x);
  } else if constexpr (kBits == 2) {
#pragma GCC unroll 2
    for (int w = 0; w < 2; ++w) {
      const Word x = word(w);
      take(4 * w, low_bits<2>(x));
      take(4 * w + 1, low_bits<2>(shift_right<2>(x)));
      take(4 * w + 2, low_bits<2>(shift_right<4>(x)));
      take(4 * w + 3, low_bits<2>(shift_right<6>(x)));
    }
  } else if constexpr (kBits == 3) {
    const Word x[3] = {word(0), word(1), word(2)};
#pragma GCC unroll 3
    for (int w = 0; w < 3; ++w) {
      take(2 * w, low_bits<3>(x[w]));
      take(2 * w + 1, low_bits<3>(shift_right<3>(x[w])));
    }
    take(6, low_bits<3>(join<2>(shift_right<6>(x[0]), shift_right<4>(x[2]))));
    take(7, low_bits<3>(join<2>(shift_right<6>(x[1]), shift_right<5>(x[2]))));
  } else if constexpr (kBits == 4) {
#pragma GCC unroll 4
    for (int w = 0; w < 4; ++w) {
      const Word x = word(w);
      take(2 * w, low_bits<4>(x));
      take(2 * w + 1, low_bits<4>(shift_right<4>(x)));
    }
  } else if constexpr (kBits == 5) {
    const Word x[5] = {word(0), word(1), word(2), word(3), word(4)};
#pragma GCC unroll 5
    for (int w = 0; w < 5; ++w) take(w, low_bits<5>(x[w]));
    take(5, low_bits<5>(join<3>(shift_right<5>(x[0]), shift_right<2>(x[1]))));
    take(6, low_bits<5>(join<3>(shift_right<5>(x[2]), shift_right<2>(x[3]))));
    const Word low = join<3>(shift_right<5>(x[4]), shift_right<4>(x[1]));
    take(7, low_bits<5>(join<4>(low, shift_right<3>(x[3]))));
  } else if constexpr (kBits == 6) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const Word x[3] = {word(3 * h), word(3 * h + 1), word(3 * h + 2)};
#pragma GCC unroll 3
      for (int w = 0; w < 3; ++w) take(3 * h + w, low_bits<6>(x[w]));
      const Word low = join<2>(shift_right<6>(x[0]), shift_right<4>(x[1]));
      take(6 + h, low_bits<6>(join<4>(low, shift_right<2>(x[2]))));
    }
  } else {
#pragma GCC unroll 8
    for (int w = 0; w < 8; ++w) take(w, word(w));
  }
}

// Returns the quad of rows that for_each_quad's quad number `taken` holds. In blocks whose halves have scales
// of their own (kSplit) the quads of rows are numbered in the order in which codes are taken, so that the
// first half is complete before the second begins; only 6 bits differ from the usual order.
template <int kBits, bool kSplit>
QUIRE_LANE_INLINE constexpr int quad_of_take(int taken) {
  if constexpr (kBits == 6 && kSplit) return taken < 3 ? taken : taken == 6 ? 3 : taken == 7 ? 7 : taken + 1;
  return taken;
}

// Loads four bytes of activations.
QUIRE_LANE_INLINE int32_t load_quad(const int8_t* x) {
  int32_t quad;
  __builtin_memcpy(&quad, x, sizeof quad);
  return quad;
}

// Bytes of the activations of one row in a block.
template <int kStored>
constexpr int kBlockBytes = kStored* kBlockRows;

}  // namespace
}  // namespace quire::kernels
