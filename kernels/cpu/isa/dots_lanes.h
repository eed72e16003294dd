// Dot products of bytes, 4 per lane: codes times the high and low bytes of 16-bit activations, or times 8-bit
// activations.
#pragma once

namespace quire::kernels {
namespace {

// Splits 16 activations into bytes; low bytes from 128 up count as negative, and the high bytes compensate.
template <int kStored>
QUIRE_LANE_INLINE void store_activations(int8_t* block, int half, I32 codes) {
  auto* bytes = reinterpret_cast<uint8_t*>(block) + 16 * half;
  if constexpr (kStored == 2) {
    store_bytes(bytes, bit_and(shift_right<8>(add(codes, splat_int(128))), splat_int(255)));
    bytes += kBlockRows;
  }
  store_bytes(bytes, bit_and(codes, splat_int(255)));
}

// The same word, or quad of codes, of kPanels panels.
template <int kPanels>
struct Panels {
  I32 of[kPanels];
};

// Returns a vector like x with that value in every byte.
template <int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> every_byte(Panels<kPanels> x, int32_t byte) {
#pragma GCC unroll 4
  for (int i = 0; i < kPanels; ++i) x.of[i] = splat_int(byte * 0x01010101);
  return x;
}
template <int kBits, int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> shift_right(Panels<kPanels> x) {
#pragma GCC unroll 4
  for (int i = 0; i < kPanels; ++i) x.of[i] = shift_right<kBits>(x.of[i]);
  return x;
}
template <int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> bit_and(Panels<kPanels> x, Panels<kPanels> y) {
#pragma GCC unroll 4
  for (int i = 0; i < kPanels; ++i) x.of[i] = bit_and(x.of[i], y.of[i]);
  return x;
}
template <int kPanels>
QUIRE_LANE_INLINE Panels<kPanels> choose(Panels<kPanels> mask, Panels<kPanels> x, Panels<kPanels> y) {
#pragma GCC unroll 4
  for (int i = 0; i < kPanels; ++i) x.of[i] = choose(mask.of[i], x.of[i], y.of[i]);
  return x;
}

// Sums over some blocks of kRows rows with kPanels panels. A product takes four to five cycles and two can
// start in each, so at least ten independent sums are needed: one row has two chains of them.
template <int kRows, int kPanels, int kStored>
struct Dots {
  static constexpr int kChains = kRows * kStored <= 2 ? 2 : 1;
  I32 high[kRows][kPanels][kChains];  // kStored 2
  I32 low[kRows][kPanels][kChains];

  QUIRE_LANE_INLINE void clear() {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kPanels; ++i) {
#pragma GCC unroll 2
        for (int c = 0; c < kChains; ++c) {
          low[r][i][c] = splat_int(0);
          if constexpr (kStored == 2) high[r][i][c] = splat_int(0);
        }
      }
    }
  }

  QUIRE_LANE_INLINE I32 sum(int r, int i) const {
    const I32 of_low = sum_of_chains(low[r][i]);
    if constexpr (kStored == 1) return of_low;
    return add(shift_left<8>(sum_of_chains(high[r][i])), of_low);
  }

  // x: [kRows, kBlockBytes<kStored>].
  template <int kBits, typename Value>
  QUIRE_LANE_INLINE void add_block(const uint32_t* const (&codes)[kPanels], const int8_t* x, Value value_of) {
    add_halves<kBits, false>(codes, x, value_of, []() __attribute__((always_inline)){});
  }
  // With kSplit, calls `between` after the first 16 rows, whose quads come first (quad_of_take).
  template <int kBits, bool kSplit, typename Value, typename Between>
  QUIRE_LANE_INLINE void add_halves(const uint32_t* const (&codes)[kPanels], const int8_t* x, Value value_of,
                                    Between between) {
    // Otherwise the compiler loads a word again for every shift, and the loads become the bottleneck.
    const auto word = [&codes](int w) __attribute__((always_inline)) {
      Panels<kPanels> words;
#pragma GCC unroll 4
      for (int i = 0; i < kPanels; ++i) {
        words.of[i] = load_int(codes[i] + 16 * w);
        keep_in_register(words.of[i]);
      }
      return words;
    };
    for_each_quad<kBits>(
        word, [&](int taken, Panels<kPanels> quads) __attribute__((always_inline)) {
          const int q = quad_of_take<kBits, kSplit>(taken);
          if (kSplit && q == 4) between();
#pragma GCC unroll 4
          for (int i = 0; i < kPanels; ++i) quads.of[i] = value_of(quads.of[i]);
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const int8_t* row = x + r * kBlockBytes<kStored> + 4 * q;
            const I32 low_bytes = splat_int(load_quad(row + kBlockRows * (kStored - 1)));
            [[maybe_unused]] const I32 high_bytes = splat_int(load_quad(row));
#pragma GCC unroll 4
            for (int i = 0; i < kPanels; ++i) {
              I32& to_low = low[r][i][q % kChains];
              if constexpr (kStored == 2) {
                I32& to_high = high[r][i][q % kChains];
                to_high = dot_quads(to_high, quads.of[i], high_bytes);
              }
              to_low = dot_quads(to_low, quads.of[i], low_bytes);
            }
          }
        });
  }

 private:
  QUIRE_LANE_INLINE static I32 sum_of_chains(const I32 (&chains)[kChains]) {
    if constexpr (kChains == 2) return add(chains[0], chains[1]);
    return chains[0];
  }
};

}  // namespace
}  // namespace quire::kernels
