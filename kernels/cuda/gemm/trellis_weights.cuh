// Decodes tiles of EXL3 matrices to f16 weights in registers. See trellis_tiles.h for the layout.
//
// Instructions per weight of 4 bits: 1.4 for its code (shifts and masks; the codes of two aligned bytes need
// one), 1 multiply-add, and then with mul1 a sum of bytes, half a byte permute and half a multiply-add of two
// halves; with the other codebooks a mask with XOR, an addition of halves and half a permute, or a fourth of
// a product instead of the last two. That is 4.4 and 4.9, or 3.7. A multiprocessor issues 128 a clock, 64 of
// them shifts, masks and permutes, and 64 multiply-adds and sums of bytes. So an H200 decodes at most 6.5 to
// 7 times 10^12 weights of mul1 a second, 33 us for a layer of an 8B model, which reads its 109 MB in 25 us.
// One row is bound by instructions: by these, and by those of its start and end.
#pragma once

#include <utility>

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/plan/trellis_tiles.h"

namespace quire::kernels {

// Calls with the constants 0 to kCount - 1.
template <int kCount, typename Call>
__device__ __forceinline__ void for_constants(Call call) {
  [&]<int... kNumbers>(std::integer_sequence<int, kNumbers...>) {
    (call(std::integral_constant<int, kNumbers>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

// Form of the tiles of a width, twice the bits of a weight.
template <int kHalfBits>
struct TrellisForm {
  static constexpr bool kWhole = kHalfBits % 2 == 0;
  static constexpr int kUnitWords = trellis_unit_words(kHalfBits);
  static constexpr int kUnitSteps = kWhole ? 2 : 4;  // steps of 32 rows whose weights a unit has
  static constexpr int kUnits = kBlockSteps / kUnitSteps;
  static constexpr int kUnitBytes = kUnitWords * 128;
  static constexpr int kStreams = kWhole ? 1 : 2;  // of a unit
  // Whole words of a stream; with half bits 16 more bits follow.
  static constexpr int kStreamWords = kHalfBits / 2;
};

// True if tensor cores add the halves of the codebooks that do so. They would also sum the bytes of mul1, but
// not faster.
#if __CUDA_ARCH__ == 900
constexpr bool kDecodesByProducts = true;
#else
constexpr bool kDecodesByProducts = false;
#endif

// Multiplier and addend of the codebooks that add two halves, and masks that select the columns of a product
// which belong to a lane.
struct TrellisFactors {
  uint32_t multiplier;
  uint32_t addend;
  uint32_t own[2];
};
constexpr uint32_t kThreeInstMultiplier = trellis_multiplier(TrellisCodebook::three_inst);
constexpr uint32_t kMul1Multiplier = trellis_multiplier(TrellisCodebook::mul1);
constexpr uint32_t kMcgMultiplier = trellis_multiplier(TrellisCodebook::mcg);
__device__ __forceinline__ TrellisFactors trellis_factors(int form, int lane) {
  const int g = lane >> 2, t = lane & 3;
  const bool is_mcg = trellis_codebook(form) == TrellisCodebook::mcg;
  return {is_mcg ? kMcgMultiplier : kThreeInstMultiplier,
          is_mcg ? 0 : kTrellisAddend,
          {g == 2 * t ? ~0U : 0U, g == 2 * t + 1 ? ~0U : 0U}};
}

// A number below 2,048 in the lower bits of f16 1024 is the f16 of 1024 + number. The value of mul1 is that
// number, a sum of bytes, times a factor plus an addend.
constexpr uint32_t kMul1Start = 0x6400U, kMul1Factor = 0x1eeeU, kMul1Addend = 0xc931c931U;
constexpr uint32_t kHalfOnes = 0x3c003c00U;

// Returns the two halves whose sum is the value of a code.
__device__ __forceinline__ uint32_t two_halves(uint32_t code, const TrellisFactors& factors) {
  return and_xor(code * factors.multiplier + factors.addend, 0x8fff8fffU, 0x3b603b60U);
}

// Decodes four codes by tensor cores, for codebooks that add two halves. A register of operand a has two
// halves of one row. With ones for two of the columns of b a lane gets back the sums of its own four
// registers, as two pairs. They have one rounding, to the nearest, like those of decode_singly.
__device__ __forceinline__ void decode_by_products(const uint32_t (&codes)[4], const TrellisFactors& factors,
                                                   __half2 (&w)[2]) {
  const uint32_t halves[4] = {two_halves(codes[0], factors), two_halves(codes[2], factors),
                              two_halves(codes[1], factors), two_halves(codes[3], factors)};
  uint32_t pairs[2];
  mma_16x8x16_half(pairs, halves, factors.own[0] & kHalfOnes, factors.own[1] & kHalfOnes);
  w[0] = half2_of(pairs[0]);
  w[1] = half2_of(pairs[1]);
}

// Decodes four codes without tensor cores; kBytes: the codebook mul1.
template <bool kBytes>
__device__ __forceinline__ void decode_singly(const uint32_t (&codes)[4], const TrellisFactors& factors,
                                              __half2 (&w)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kBytes) {
      const uint32_t a = sum_bytes(codes[2 * i] * kMul1Multiplier, kMul1Start),
                     b = sum_bytes(codes[2 * i + 1] * kMul1Multiplier, kMul1Start);
      w[i] = __hfma2(half2_of(permute_bytes(a, b, 0x5410)), half2_of(kMul1Factor * 0x10001U),
                     half2_of(kMul1Addend));
    } else {
      const __half2 a = half2_of(two_halves(codes[2 * i], factors)),
                    b = half2_of(two_halves(codes[2 * i + 1], factors));
      w[i] = __halves2half2(__hadd(__low2half(a), __high2half(a)), __hadd(__low2half(b), __high2half(b)));
    }
  }
}

// A lane's bits of a unit, and the ends of the streams before its streams. `At` is a tile of plane.cuh.
template <int kHalfBits>
struct TrellisUnit {
  using Form = TrellisForm<kHalfBits>;
  uint32_t words[Form::kUnitWords];
  uint32_t before[Form::kStreams];  // its last 16 bits count

  template <typename At>
  __device__ __forceinline__ void fetch(At at, int lane) {
    constexpr int kWords = Form::kUnitWords, kFours = kWords / 4 * 4;
#pragma unroll
    for (int w = 0; w < kFours; w += 4) {
      const uint4 v = at.four(trellis_word_place(kWords, w, lane));
      words[w] = v.x;
      words[w + 1] = v.y;
      words[w + 2] = v.z;
      words[w + 3] = v.w;
    }
    if constexpr (kWords % 4 >= 2) {
      const uint2 v = at.two(trellis_word_place(kWords, kFours, lane));
      words[kFours] = v.x;
      words[kFours + 1] = v.y;
    }
    if constexpr (kWords % 2 == 1) words[kWords - 1] = at.one(trellis_word_place(kWords, kWords - 1, lane));
    const int neighbour = (lane - 4) & 31;
    before[Form::kStreams - 1] = at.one(trellis_word_place(kWords, kWords - 1, neighbour));
    if constexpr (!Form::kWhole)
      before[0] = at.one(trellis_word_place(kWords, Form::kStreamWords, neighbour)) >> 16;
  }

  // Returns word `w` of a stream; -1: the last of the stream before.
  template <int kStream, int kWord>
  __device__ __forceinline__ uint32_t word() const {
    if constexpr (kWord < 0) {
      return before[kStream];
    } else if constexpr (kStream == 0) {
      return words[kWord];
    } else {
      constexpr int kFirst = Form::kStreamWords + kWord;  // the stream begins within a word
      return kFirst + 1 < Form::kUnitWords ? funnel_right(words[kFirst + 1], words[kFirst], 16)
                                           : words[kFirst] << 16;
    }
  }

  // Returns the code of weight kWeight of a stream. Codes that are a byte apart share a shift.
  template <int kStream, int kWeight>
  __device__ __forceinline__ uint32_t code() const {
    constexpr int kEnd = (kWeight + 1) * kHalfBits / 2, kWord = (kEnd - 1) / 32;
    constexpr int kShift = 32 * (kWord + 1) - kEnd;
    if constexpr (kShift == 16) {
      return word<kStream, kWord>() >> 16;
    } else if constexpr (kShift >= 8 && kShift < 16) {
      return permute_bytes(word<kStream, kWord>() >> (kShift - 8), 0, 0x4421);
    } else if constexpr (kShift >= 24) {
      return permute_bytes(funnel_right(word<kStream, kWord>(), word<kStream, kWord - 1>(), kShift - 8), 0,
                           0x4421);
    } else if constexpr (kShift < 8) {
      return word<kStream, kWord>() >> kShift & 0xffffU;
    } else {
      return funnel_right(word<kStream, kWord>(), word<kStream, kWord - 1>(), kShift) & 0xffffU;
    }
  }

  // Decodes the 8 pairs of step kStep of the unit, in the order of matrix.h.
  template <bool kBytes, int kStep>
  __device__ __forceinline__ void decode(const TrellisFactors& factors, __half2* w) const {
    for_constants<4>([&]<int kFour>(std::integral_constant<int, kFour>) {
      // Pair 4j + 2r + c is of column g + 8c: weights 8j + 4c + 2r and the next of the half stream.
      constexpr int kFirst = 16 * (kStep % 2) + kFour / 2 * 8 + kFour % 2 * 2, kStream = kStep / 2;
      const uint32_t codes[4] = {code<kStream, kFirst>(), code<kStream, kFirst + 1>(),
                                 code<kStream, kFirst + 4>(), code<kStream, kFirst + 5>()};
      __half2 made[2];
      if constexpr (kDecodesByProducts && !kBytes) {
        decode_by_products(codes, factors, made);
      } else {
        decode_singly<kBytes>(codes, factors, made);
      }
      w[2 * kFour] = made[0];
      w[2 * kFour + 1] = made[1];
    });
  }
};

// Calls with the width of a form, and whether its codebook is mul1, as constants. The form is the same for
// all lanes of a warp.
template <bool kBytes, typename Call>
__device__ __forceinline__ void with_trellis_width(int half_bits, Call call) {
  const auto with = [&]<int kHalfBits>(std::integral_constant<int, kHalfBits> width) {
    call(width, std::bool_constant<kBytes>{});
  };
  switch (half_bits) {
    case 2:
      return with(std::integral_constant<int, 2>{});
    case 4:
      return with(std::integral_constant<int, 4>{});
    case 6:
      return with(std::integral_constant<int, 6>{});
    case 8:
      return with(std::integral_constant<int, 8>{});
    case 10:
      return with(std::integral_constant<int, 10>{});
    case 12:
      return with(std::integral_constant<int, 12>{});
    case 14:
      return with(std::integral_constant<int, 14>{});
    case 16:
      return with(std::integral_constant<int, 16>{});
    default:
      break;
  }
  if constexpr (kBytes) {
    if (half_bits == 3) return with(std::integral_constant<int, 3>{});
    if (half_bits == 5) return with(std::integral_constant<int, 5>{});
    with(std::integral_constant<int, 7>{});
  }
}
template <typename Call>
__device__ __forceinline__ void with_trellis_form(int form, Call call) {
  if (trellis_codebook(form) == TrellisCodebook::mul1) {
    with_trellis_width<true>(trellis_half_bits(form), call);
  } else {
    with_trellis_width<false>(trellis_half_bits(form), call);
  }
}

}  // namespace quire::kernels
