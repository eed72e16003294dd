// Products with matrices of EXL3 (docs/adr/0069), in f32. Weights are decoded where they are multiplied: a
// pair of tiles at a time, 16 rows of 32 columns, to scratch memory that stays in the first-level cache.
//
// In a tile 32 consecutive weights of the stream, two halves of 16 rows, have columns i and i + 8. So a tile
// is eight streams that run in parallel, each 32 weights after the one before it. A pair of tiles is 16
// streams: one for each lane, and the same shifts apply to all lanes.
#pragma once

namespace quire::kernels {
namespace {

constexpr int kPairSteps = 32;  // weights of a stream
constexpr int kPairFloats = kPairSteps * 16;
constexpr int kPairsOfPanel = kHadamardOrder / 32;
constexpr int kTilesOfBlock = kHadamardOrder / kTrellisTile;  // tiles below each other in 128 rows

// Step of a stream, which a pair of steps of a tile has twice: the row of its weight, and whether it belongs
// to columns 8 to 15 of the tile.
constexpr int row_of_step(int step) {
  return step / 8 * 2 + step % 2 + step / 2 % 2 * 8;
}
constexpr int half_of_step(int step) {
  return step / 4 % 2;
}
// Bits of a stream up to and including those of a step.
constexpr int end_of_step(int half_bits, int step) {
  return (step + 1) * half_bits / 2;
}

// Unpacks the codes of a pair of tiles: [16 rows][2 halves][16 streams]. A code is within two consecutive
// words, because a weight has at most 8 bits; before the first word of a stream comes the last one of the
// stream before it. Unrolled, all numbers but the words are constants.
template <int kHalfBits>
void unpack_pair(const uint16_t* words, float* codes) {
  I32 last = rotate_eights(load_short(words + 16 * (kHalfBits - 1)));
  I32 both = last;  // the last two words, the earlier in the upper half
  int loaded = -1;
#pragma GCC unroll kUnrolledSteps
  for (int step = 0; step < kPairSteps; ++step) {
    const int end = end_of_step(kHalfBits, step);
    const int word = (end - 1) / 16;
    if (word != loaded) {
      const I32 next = load_short(words + 16 * word);
      both = bit_or(shift_left<16>(last), next);
      last = next;
      loaded = word;
    }
    const I32 code = bit_and(shift_right_by(both, 16 * (word + 1) - end), splat_int(0xffff));
    store(codes + 16 * (2 * row_of_step(step) + half_of_step(step)), as_float(code));
  }
}

// Returns the f32 of a half in the upper bits whose exponent is 12 to 15, given without the bits that all of
// them share: the sign, the lower two bits of the exponent, and the mantissa. The constant is 0x3b60 as f32.
QUIRE_LANE_INLINE F32 widen_upper_half(I32 x) {
  const I32 kept = bit_and(shift_right_signed<3>(x), splat_int(static_cast<int32_t>(0x81ffe000U)));
  return as_float(bit_xor(kept, splat_int(0x3f6c0000)));
}

// Returns the values of codes: see trellis_value.
template <TrellisCodebook kCodebook>
QUIRE_LANE_INLINE F32 value_of(I32 codes) {
  constexpr auto kMultiplier = static_cast<int32_t>(trellis_multiplier(kCodebook));
  I32 product = mul_modulo(codes, splat_int(kMultiplier));
  if constexpr (kCodebook == TrellisCodebook::mul1) {
    // 1024 + sum, times f16 0x1eee, plus f16 0xc931: exact before it is rounded.
    const F32 sum = to_float(add(sum_bytes(product), splat_int(1024)));
    return round_half(fma(sum, splat(0x1.bb8p-8f), splat(-0x1.4c4p3f)));
  } else {
    if constexpr (kCodebook == TrellisCodebook::three_inst)
      product = add_modulo(product, splat_int(64248484));
    return round_half(add(widen_upper_half(shift_left<16>(product)), widen_upper_half(product)));
  }
}

// Converts the codes of a pair of tiles in place.
template <TrellisCodebook kCodebook>
void convert_pair(float* codes) {
  for (int i = 0; i < kPairFloats; i += 16) store(codes + i, value_of<kCodebook>(as_int(load(codes + i))));
}

// Adds one row times the codes of a pair of tiles.
template <TrellisCodebook kCodebook>
void add_pair(const float* codes, const float* x, F32 (&sums)[2]) {
  F32 first = sums[0], second = sums[1];
  for (int k = 0; k < kTrellisTile; ++k) {
    const F32 xk = splat(x[k]);
    first = fma(xk, value_of<kCodebook>(as_int(load(codes + 32 * k))), first);
    second = fma(xk, value_of<kCodebook>(as_int(load(codes + 32 * k + 16))), second);
  }
  sums[0] = first;
  sums[1] = second;
}

struct TrellisSteps {
  void (*unpack)(const uint16_t* words, float* codes);
  void (*convert)(float* codes);
  void (*add)(const float* codes, const float* x, F32 (&sums)[2]);
};

decltype(TrellisSteps::unpack) unpack_of(int32_t half_bits) {
  switch (half_bits) {
    case 2:
      return unpack_pair<2>;
    case 3:
      return unpack_pair<3>;
    case 4:
      return unpack_pair<4>;
    case 5:
      return unpack_pair<5>;
    case 6:
      return unpack_pair<6>;
    case 7:
      return unpack_pair<7>;
    case 8:
      return unpack_pair<8>;
    case 10:
      return unpack_pair<10>;
    case 12:
      return unpack_pair<12>;
    case 14:
      return unpack_pair<14>;
    default:
      return unpack_pair<16>;
  }
}

template <TrellisCodebook kCodebook>
TrellisSteps steps_with(int32_t half_bits) {
  return {unpack_of(half_bits), convert_pair<kCodebook>, add_pair<kCodebook>};
}

TrellisSteps steps_of(const TrellisPanel& panel) {
  switch (panel.codebook) {
    case TrellisCodebook::three_inst:
      return steps_with<TrellisCodebook::three_inst>(panel.half_bits);
    case TrellisCodebook::mcg:
      return steps_with<TrellisCodebook::mcg>(panel.half_bits);
    default:
      return steps_with<TrellisCodebook::mul1>(panel.half_bits);
  }
}

// Signs of the lanes in a step of the Hadamard transform within 16 lanes: negative where the lane's number
// has the bit of the distance.
template <int kDistance>
QUIRE_LANE_INLINE I32 butterfly_signs() {
  static constexpr auto kSigns = [] {
    struct {
      uint32_t of[16];
    } signs{};
    for (int i = 0; i < 16; ++i) signs.of[i] = (i & kDistance) != 0 ? 0x80000000U : 0;
    return signs;
  }();
  return load_int(kSigns.of);
}

template <int kDistance>
QUIRE_LANE_INLINE void butterfly_lanes(F32 (&x)[8]) {
  const I32 signs = butterfly_signs<kDistance>();
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    x[i] = add(exchange_lanes<kDistance>(x[i]), as_float(bit_xor(as_int(x[i]), signs)));
}

template <int kDistance>
QUIRE_LANE_INLINE void butterfly_vectors(F32 (&x)[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    if ((i & kDistance) != 0) continue;
    const F32 a = x[i], b = x[i + kDistance];
    x[i] = add(a, b);
    x[i + kDistance] = sub(a, b);
  }
}

// Multiplies 128 values by the Hadamard matrix.
QUIRE_LANE_INLINE void hadamard(F32 (&x)[8]) {
  butterfly_lanes<1>(x);
  butterfly_lanes<2>(x);
  butterfly_lanes<4>(x);
  butterfly_lanes<8>(x);
  butterfly_vectors<1>(x);
  butterfly_vectors<2>(x);
  butterfly_vectors<4>(x);
}

// Scales and transforms 128 inputs of one row; those from num_in on are 0.
void transform_inputs(const TrellisPanel& panel, const float* input, int32_t first, float* out) {
  F32 x[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int32_t at = first + 16 * i, left = panel.num_in - at;
    const F32 value = left >= 16 ? load(input + at) : left > 0 ? load_partial(input + at, left) : splat(0.0f);
    x[i] = mul(value, load_half(panel.input_scales + at));
  }
  hadamard(x);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store(out + 16 * i, x[i]);
}

// Transforms and scales the 128 sums of one row. The sums are in the order of the streams: for each pair of
// tiles first the columns 0 to 7 of both, then the columns 8 to 15.
void transform_outputs(const TrellisPanel& panel, const float* sums, float* output) {
  for (int eight = 0; eight < kHadamardOrder / 8; ++eight) {
    const int from = eight / 4 * 4 + eight % 2 * 2 + eight / 2 % 2;
    __builtin_memcpy(output + 8 * eight, sums + 8 * from, 8 * sizeof(float));
  }
  F32 x[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) x[i] = load(output + 16 * i);
  hadamard(x);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) store(output + 16 * i, mul(x[i], load(panel.output_scales + 16 * i)));
}

// Scratch memory of a product of a panel with up to kTrellisRows rows.
struct TrellisScratch {
  alignas(64) float weights[kTilesOfBlock * kPairFloats];   // of 128 rows of a pair
  alignas(64) float inputs[kTrellisRows * kHadamardOrder];  // 128 transformed inputs of each row
  alignas(64) float sums[kTrellisRows * kHadamardOrder];    // in the order of the streams
};

QUIRE_LANE_INLINE void add_to(float* total, F32 sum) {
  store(total, add(load(total), sum));
}

// Prefetches the words of a pair of tiles some pairs ahead.
QUIRE_LANE_INLINE void prefetch_pair(const uint16_t* words, int32_t half_bits) {
  constexpr size_t kAheadBytes = 4096;
  const auto* ahead = reinterpret_cast<const char*>(words) + kAheadBytes;
  for (int32_t line = 0; line < half_bits; line += 2) prefetch(ahead + 32 * line);
}

// Multiplies a row by 128 rows of a pair, and adds the two sums of 16 columns to the totals.
void multiply_one(const TrellisPanel& panel, const TrellisSteps& steps, const uint16_t* words, const float* x,
                  TrellisScratch& scratch, float* totals) {
  F32 sums[2] = {splat(0.0f), splat(0.0f)};
  for (int tile = 0; tile < kTilesOfBlock; ++tile) {
    const size_t first = static_cast<size_t>(tile) * 16 * static_cast<size_t>(panel.half_bits);
    prefetch_pair(words + first, panel.half_bits);
    steps.unpack(words + first, scratch.weights);
    steps.add(scratch.weights, x + kTrellisTile * tile, sums);
  }
  add_to(totals, sums[0]);
  add_to(totals + 16, sums[1]);
}

// Decodes 128 rows of a pair: [128][2][16].
void decode_block(const TrellisPanel& panel, const TrellisSteps& steps, const uint16_t* words,
                  float* weights) {
  for (int tile = 0; tile < kTilesOfBlock; ++tile) {
    const size_t first = static_cast<size_t>(tile) * 16 * static_cast<size_t>(panel.half_bits);
    prefetch_pair(words + first, panel.half_bits);
    steps.unpack(words + first, weights + kPairFloats * tile);
    steps.convert(weights + kPairFloats * tile);
  }
}

// Multiplies kRows rows by kHalves vectors of 128 decoded rows.
template <int kRows, int kHalves>
QUIRE_LANE_INLINE void multiply_decoded(const float* weights, const float* x, float* totals) {
  F32 sums[kRows][kHalves];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < kHalves; ++h) sums[r][h] = splat(0.0f);
  for (int k = 0; k < kHadamardOrder; ++k) {
    F32 w[kHalves];
    for (int h = 0; h < kHalves; ++h) w[h] = load(weights + 32 * k + 16 * h);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 xk = splat(x[kHadamardOrder * r + k]);
      for (int h = 0; h < kHalves; ++h) sums[r][h] = fma(xk, w[h], sums[r][h]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < kHalves; ++h) add_to(totals + kHadamardOrder * r + 16 * h, sums[r][h]);
}

template <int kRows>
void multiply_rows(const float* weights, const float* x, float* totals) {
  if constexpr (kDenseRows >= 8 || kRows < kDenseRows) {
    multiply_decoded<kRows, 2>(weights, x, totals);
  } else {
    multiply_decoded<kRows, 1>(weights, x, totals);
    multiply_decoded<kRows, 1>(weights + 16, x, totals + 16);
  }
}

// Multiplies all rows by 128 decoded rows, as many rows at a time as the registers hold.
void multiply_all(const float* weights, const float* inputs, int32_t rows, float* totals) {
  for (int32_t done = 0; rows > 0;
       rows -= done, inputs += kHadamardOrder * done, totals += kHadamardOrder * done) {
    if (kDenseRows >= 8 && rows >= 8) {
      done = 8;
      if constexpr (kDenseRows >= 8) multiply_rows<8>(weights, inputs, totals);
    } else if (kDenseRows >= 4 && rows >= 4) {
      done = 4;
      if constexpr (kDenseRows >= 4) multiply_rows<4>(weights, inputs, totals);
    } else if (rows >= 2) {
      done = 2;
      multiply_rows<2>(weights, inputs, totals);
    } else {
      done = 1;
      multiply_rows<1>(weights, inputs, totals);
    }
  }
}

// Every output is a sum over blocks of 128 inputs, in their order, of sums over the inputs of a block in
// their order. So it does not depend on the number of rows.
void trellis_panel(const TrellisPanel& panel, const float* input, size_t input_stride, int32_t rows,
                   float* output) {
  const TrellisSteps steps = steps_of(panel);
  TrellisScratch scratch;
  for (int32_t i = 0; i < rows * kHadamardOrder; i += 16) store(scratch.sums + i, splat(0.0f));
  const size_t pair_words = static_cast<size_t>(kTilesOfBlock) * 16 * static_cast<size_t>(panel.half_bits);
  const uint16_t* words = panel.words;
  for (int32_t first = 0; first < panel.num_in; first += kHadamardOrder) {
    for (int32_t r = 0; r < rows; ++r)
      transform_inputs(panel, input + static_cast<size_t>(r) * input_stride, first,
                       scratch.inputs + kHadamardOrder * r);
    for (int pair = 0; pair < kPairsOfPanel; ++pair, words += pair_words) {
      float* totals = scratch.sums + 32 * pair;
      if (rows == 1) {
        multiply_one(panel, steps, words, scratch.inputs, scratch, totals);
      } else {
        decode_block(panel, steps, words, scratch.weights);
        multiply_all(scratch.weights, scratch.inputs, rows, totals);
      }
    }
  }
  for (int32_t r = 0; r < rows; ++r)
    transform_outputs(panel, scratch.sums + kHadamardOrder * r, output + kHadamardOrder * r);
}

}  // namespace
}  // namespace quire::kernels
