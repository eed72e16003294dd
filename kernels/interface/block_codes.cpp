#include "kernels/interface/block_codes.h"

#include <bit>
#include <cstring>

#include "kernels/interface/block_grids.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// Values are shifted by their zero, so that they are unsigned.
constexpr uint8_t kIq4Values[16] = {0, 23, 44, 62, 78, 92, 105, 117, 128, 140, 152, 165, 180, 196, 216, 240};
constexpr uint8_t kFp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
// Index of a magnitude, and from 4 or 8 on its negative.
constexpr uint8_t kIq2Values[16] = {51, 68, 86, 43, 35, 18, 0, 43};
constexpr uint8_t kIq3XxsValues[16] = {66, 74, 82, 90, 98, 106, 114, 124, 58, 50, 42, 34, 26, 18, 10, 0};
constexpr uint8_t kIq3SValues[16] = {16, 18, 20, 22, 24, 26, 28, 30, 14, 12, 10, 8, 6, 4, 2, 0};
// Eight times -1, 0, 1, plus 1 or, from 4 on, minus 1.
constexpr uint8_t kIq1Values[16] = {2, 10, 18, 9, 0, 8, 16, 9};

constexpr BlockForm kForms[kNumBlockTypes] = {
    BlockForm{0},                                          // none
    {4, 32, BlockTerms::half, 8},                          // Q4_0
    {4, 32, BlockTerms::half_min},                         // Q4_1
    {5, 32, BlockTerms::half, 16},                         // Q5_0
    {5, 32, BlockTerms::half_min},                         // Q5_1
    {8, 32, BlockTerms::half, 128},                        // Q8_0
    {2, 16, BlockTerms::nibbles_min},                      // Q2_K
    {3, 16, BlockTerms::bytes, 4},                         // Q3_K
    {4, 32, BlockTerms::bytes_min},                        // Q4_K
    {5, 32, BlockTerms::bytes_min},                        // Q5_K
    {6, 16, BlockTerms::bytes, 32},                        // Q6_K
    {3, 16, BlockTerms::bytes, 9, kIq1Values, 0.125f},     // IQ1_S
    {3, 16, BlockTerms::bytes, 9, kIq1Values, 0.125f},     // IQ1_M
    {3, 16, BlockTerms::bytes, 43, kIq2Values, 0.125f},    // IQ2_XXS
    {3, 16, BlockTerms::bytes, 43, kIq2Values, 0.125f},    // IQ2_XS
    {3, 16, BlockTerms::bytes, 43, kIq2Values, 0.125f},    // IQ2_S
    {4, 32, BlockTerms::bytes, 62, kIq3XxsValues, 0.25f},  // IQ3_XXS
    {4, 32, BlockTerms::bytes, 15, kIq3SValues},           // IQ3_S
    {4, 32, BlockTerms::half, 127, kIq4Values},            // IQ4_NL
    {4, 32, BlockTerms::bytes, 127, kIq4Values},           // IQ4_XS
    {2, 32, BlockTerms::half, 1},                          // TQ1_0
    {2, 32, BlockTerms::half, 1},                          // TQ2_0
    {4, 32, BlockTerms::e8m0, 12, kFp4Values, 0.5f},       // MXFP4
    {4, 16, BlockTerms::e4m3, 12, kFp4Values, 0.5f},       // NVFP4
    {2, 32, BlockTerms::half, 1},                          // Q1_0
    {2, 32, BlockTerms::half, 1},                          // Q2_0
};

uint16_t half_at(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}
uint32_t word_at(const uint8_t* p) {
  return static_cast<uint32_t>(half_at(p)) | static_cast<uint32_t>(half_at(p + 2)) << 16;
}

// Bytes of `count` pairs of nibbles: the low ones are the first `count` weights.
void read_nibbles(const uint8_t* bytes, int count, uint8_t* codes) {
  for (int j = 0; j < count; ++j) {
    codes[j] = bytes[j] & 15;
    codes[j + count] = bytes[j] >> 4;
  }
}

// Adds bit j of `bits` to code j, as its bit 4.
void add_fifth_bits(uint32_t bits, uint8_t* codes) {
  for (int j = 0; j < 32; ++j) codes[j] = static_cast<uint8_t>(codes[j] | ((bits >> j & 1U) << 4));
}

// Subtracting the negative of a number adds it.
uint16_t negated(uint16_t half) {
  return half ^ 0x8000U;
}

void read_q4_0(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  read_nibbles(block + 2, 16, out.codes);
}

void read_q4_1(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = negated(half_at(block + 2));
  read_nibbles(block + 4, 16, out.codes);
}

void read_q5_0(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  read_nibbles(block + 6, 16, out.codes);
  add_fifth_bits(word_at(block + 2), out.codes);
}

void read_q5_1(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = negated(half_at(block + 2));
  read_nibbles(block + 8, 16, out.codes);
  add_fifth_bits(word_at(block + 4), out.codes);
}

void read_q8_0(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int j = 0; j < 32; ++j) out.codes[j] = block[2 + j] ^ 0x80U;
}

// Codes of two bits of 128 weights in 32 bytes: each pair of bits holds 32 weights.
void read_pairs(const uint8_t* bytes, uint8_t* codes) {
  for (int pair = 0; pair < 4; ++pair)
    for (int j = 0; j < 32; ++j) codes[32 * pair + j] = bytes[j] >> (2 * pair) & 3;
}

void read_q2_k(const uint8_t* block, BlockCodes& out) {
  std::memcpy(out.group_scales, block, 16);
  read_pairs(block + 16, out.codes);
  read_pairs(block + 48, out.codes + 128);
  out.scales[0] = half_at(block + 80);
  out.mins[0] = half_at(block + 82);
}

// Sixteen numbers of six bits: four low bits in eight bytes, two high bits in four.
void read_q3_k_factors(const uint8_t* bytes, uint8_t* factors) {
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? bytes[g] & 15 : bytes[g - 8] >> 4;
    const int high = bytes[8 + g % 4] >> (2 * (g / 4)) & 3;
    factors[g] = static_cast<uint8_t>((low | high << 4) - 32);
  }
}

void read_q3_k(const uint8_t* block, BlockCodes& out) {
  const uint8_t* high = block;
  read_pairs(block + 32, out.codes);
  read_pairs(block + 64, out.codes + 128);
  for (int part = 0; part < 8; ++part)
    for (int j = 0; j < 32; ++j)
      out.codes[32 * part + j] = static_cast<uint8_t>(out.codes[32 * part + j] | (high[j] >> part & 1) << 2);
  read_q3_k_factors(block + 96, out.group_scales);
  out.scales[0] = half_at(block + 108);
}

// Eight scales and eight minima of six bits in twelve bytes.
void read_k_factors(const uint8_t* bytes, BlockCodes& out) {
  for (int j = 0; j < 4; ++j) {
    out.group_scales[j] = bytes[j] & 63;
    out.group_mins[j] = bytes[j + 4] & 63;
    out.group_scales[j + 4] = static_cast<uint8_t>((bytes[j + 8] & 15) | bytes[j] >> 6 << 4);
    out.group_mins[j + 4] = static_cast<uint8_t>(bytes[j + 8] >> 4 | bytes[j + 4] >> 6 << 4);
  }
}

void read_q4_k(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = half_at(block + 2);
  read_k_factors(block + 4, out);
  for (int i = 0; i < 4; ++i) read_nibbles(block + 16 + 32 * i, 32, out.codes + 64 * i);
}

void read_q5_k(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = half_at(block + 2);
  read_k_factors(block + 4, out);
  const uint8_t* high = block + 16;
  for (int i = 0; i < 4; ++i) read_nibbles(block + 48 + 32 * i, 32, out.codes + 64 * i);
  for (int part = 0; part < 8; ++part)
    for (int j = 0; j < 32; ++j)
      out.codes[32 * part + j] = static_cast<uint8_t>(out.codes[32 * part + j] | (high[j] >> part & 1) << 4);
}

void read_q6_k(const uint8_t* block, BlockCodes& out) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = block + 64 * half;
    const uint8_t* high = block + 128 + 32 * half;
    uint8_t* codes = out.codes + 128 * half;
    read_nibbles(low, 64, codes);
    for (int part = 0; part < 4; ++part)
      for (int j = 0; j < 32; ++j)
        codes[32 * part + j] = static_cast<uint8_t>(codes[32 * part + j] | (high[j] >> (2 * part) & 3) << 4);
  }
  std::memcpy(out.group_scales, block + 192, 16);
  out.scales[0] = half_at(block + 208);
}

// Bits of an IQ type's eight signs: seven are stored, and the eighth makes their number even.
uint32_t even_signs(uint32_t seven) {
  return seven | (static_cast<uint32_t>(std::popcount(seven)) & 1U) << 7;
}

// Writes kCount codes. The low kBits of a code are the next bits of `grid`, and the bit above them is the
// next bit of `signs`.
template <int kCount, int kBits>
void write_signed(uint32_t grid, uint32_t signs, uint8_t* codes) {
  constexpr uint32_t kMask = (1U << kBits) - 1;
  for (int j = 0; j < kCount; ++j)
    codes[j] = static_cast<uint8_t>((grid >> (kBits * j) & kMask) | (signs >> j & 1U) << kBits);
}

uint8_t odd_factor(uint32_t stored) {
  return static_cast<uint8_t>(2 * stored + 1);
}

void read_iq1_s(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int g = 0; g < 8; ++g) {
    const uint32_t high = half_at(block + 34 + 2 * g);
    out.group_scales[2 * g] = out.group_scales[2 * g + 1] = odd_factor(high >> 12 & 7U);
    for (int i = 0; i < 4; ++i) {
      const uint32_t index = block[2 + 4 * g + i] | (high >> (3 * i) & 7U) << 8;
      write_signed<8, 2>(kIq1Grid[index], high >> 15 != 0 ? 255 : 0, out.codes + 32 * g + 8 * i);
    }
  }
}

// The f16 scale lies in the high four bits of the four words of factors.
uint16_t iq1_m_scale(const uint8_t* words) {
  uint32_t scale = 0;
  for (int i = 0; i < 4; ++i) scale |= static_cast<uint32_t>(half_at(words + 2 * i) >> 12) << (4 * i);
  return static_cast<uint16_t>(scale);
}

void read_iq1_m(const uint8_t* block, BlockCodes& out) {
  const uint8_t* words = block + 48;
  out.scales[0] = iq1_m_scale(words);
  for (int g = 0; g < 16; ++g)
    out.group_scales[g] = odd_factor(static_cast<uint32_t>(half_at(words + g / 4 * 2)) >> (3 * (g % 4)) & 7U);
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = static_cast<uint32_t>(block[32 + i / 2]) >> (4 * (i % 2)) & 15U;
    write_signed<8, 2>(kIq1Grid[block[i] | (high & 7U) << 8], high >> 3 != 0 ? 255 : 0, out.codes + 8 * i);
  }
}

void read_iq2_xxs(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* indices = block + 2 + 8 * g;
    const uint32_t signs = word_at(indices + 4);
    out.group_scales[2 * g] = out.group_scales[2 * g + 1] = odd_factor(signs >> 28);
    for (int i = 0; i < 4; ++i)
      write_signed<8, 2>(kIq2XxsGrid[indices[i]], even_signs(signs >> (7 * i) & 127U),
                         out.codes + 32 * g + 8 * i);
  }
}

// Factors of sixteen groups, four bits each.
void read_odd_factors(const uint8_t* bytes, BlockCodes& out) {
  for (int g = 0; g < 16; ++g) out.group_scales[g] = odd_factor(bytes[g / 2] >> (4 * (g % 2)) & 15U);
}

void read_iq2_xs(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = half_at(block + 2 + 2 * i);
    write_signed<8, 2>(kIq2XsGrid[word & 511U], even_signs(word >> 9), out.codes + 8 * i);
  }
  read_odd_factors(block + 66, out);
}

void read_iq2_s(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = block[66 + i / 4] >> (2 * (i % 4)) & 3U;
    write_signed<8, 2>(kIq2SGrid[block[2 + i] | high << 8], block[34 + i], out.codes + 8 * i);
  }
  read_odd_factors(block + 74, out);
}

void read_iq3_xxs(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int g = 0; g < 8; ++g) {
    const uint32_t stored = word_at(block + 66 + 4 * g);
    out.group_scales[g] = odd_factor(stored >> 28);
    for (int i = 0; i < 8; ++i) {
      const uint32_t signs = even_signs(stored >> (7 * (i / 2)) & 127U) >> (4 * (i % 2));
      write_signed<4, 3>(kIq3XxsGrid[block[2 + 8 * g + i]], signs, out.codes + 32 * g + 4 * i);
    }
  }
}

void read_iq3_s(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int i = 0; i < 64; ++i) {
    const uint32_t high = block[66 + i / 8] >> (i % 8) & 1U;
    const uint32_t signs = static_cast<uint32_t>(block[74 + i / 2]) >> (4 * (i % 2));
    write_signed<4, 3>(kIq3SGrid[block[2 + i] | high << 8], signs, out.codes + 4 * i);
  }
  for (int g = 0; g < 8; ++g) out.group_scales[g] = odd_factor(block[106 + g / 2] >> (4 * (g % 2)) & 15U);
}

void read_iq4_xs(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  const uint32_t high = half_at(block + 2);
  for (int g = 0; g < 8; ++g) {
    const uint32_t low = block[4 + g / 2] >> (4 * (g % 2)) & 15U;
    out.group_scales[g] = static_cast<uint8_t>((low | (high >> (2 * g) & 3U) << 4) - 32U);
    read_nibbles(block + 8 + 16 * g, 16, out.codes + 32 * g);
  }
}

// One scale for several groups of 32.
void repeat_scale(uint16_t scale, int groups, BlockCodes& out) {
  for (int g = 0; g < groups; ++g) out.scales[g] = scale;
}

// Digits of base three: the n-th of a byte is the integer part of 3 * fraction(byte * 3^n / 256).
void read_digits(const uint8_t* bytes, int count, int digits, uint8_t* codes) {
  uint32_t power = 1;
  for (int n = 0; n < digits; ++n, power *= 3)
    for (int j = 0; j < count; ++j)
      codes[n * count + j] = static_cast<uint8_t>((bytes[j] * power & 255U) * 3U >> 8);
}

void read_tq1_0(const uint8_t* block, BlockCodes& out) {
  read_digits(block, 32, 5, out.codes);
  read_digits(block + 32, 16, 5, out.codes + 160);
  read_digits(block + 48, 4, 4, out.codes + 240);
  repeat_scale(half_at(block + 52), 8, out);
}

void read_tq2_0(const uint8_t* block, BlockCodes& out) {
  read_pairs(block, out.codes);
  read_pairs(block + 32, out.codes + 128);
  repeat_scale(half_at(block + 64), 8, out);
}

void read_mxfp4(const uint8_t* block, BlockCodes& out) {
  out.group_scales[0] = block[0];
  read_nibbles(block + 1, 16, out.codes);
}

// ggml reads 0x7f as 0 and ignores the sign bit otherwise.
uint8_t unsigned_e4m3(uint8_t stored) {
  return stored == 0x7f ? uint8_t{0} : static_cast<uint8_t>(stored & 0x7fU);
}

void read_nvfp4(const uint8_t* block, BlockCodes& out) {
  for (int g = 0; g < 4; ++g) {
    out.group_scales[g] = unsigned_e4m3(block[g]);
    read_nibbles(block + 4 + 8 * g, 8, out.codes + 16 * g);
  }
}

void read_q1_0(const uint8_t* block, BlockCodes& out) {
  repeat_scale(half_at(block), 4, out);
  for (int j = 0; j < 128; ++j) out.codes[j] = static_cast<uint8_t>((block[2 + j / 8] >> (j % 8) & 1) * 2);
}

void read_q2_0(const uint8_t* block, BlockCodes& out) {
  repeat_scale(half_at(block), 2, out);
  for (int j = 0; j < 64; ++j) out.codes[j] = block[2 + j / 4] >> (2 * (j % 4)) & 3;
}

constexpr void (*kReaders[kNumBlockTypes])(const uint8_t*, BlockCodes&) = {
    nullptr,     read_q4_0,  read_q4_1,    read_q5_0,  read_q5_1,  read_q8_0,   read_q2_k,
    read_q3_k,   read_q4_k,  read_q5_k,    read_q6_k,  read_iq1_s, read_iq1_m,  read_iq2_xxs,
    read_iq2_xs, read_iq2_s, read_iq3_xxs, read_iq3_s, read_q4_0,  read_iq4_xs, read_tq1_0,
    read_tq2_0,  read_mxfp4, read_nvfp4,   read_q1_0,  read_q2_0,
};

// Places of the f16 scales in a block; -1: none.
struct ScalePlaces {
  int first;
  int second;
};
constexpr ScalePlaces kPlaces[kNumBlockTypes] = {
    {-1, -1}, {0, -1},   {0, 2},   {0, -1},  {0, 2},   {0, -1},  {80, 82}, {108, -1}, {0, 2},
    {0, 2},   {208, -1}, {0, -1},  {-1, -1}, {0, -1},  {0, -1},  {0, -1},  {0, -1},   {0, -1},
    {0, -1},  {0, -1},   {52, -1}, {64, -1}, {-1, -1}, {-1, -1}, {0, -1},  {0, -1},
};

// 6 * 2^125 is a float, 6 * 2^126 is not.
constexpr uint8_t kLargestE8m0 = 127 + 125;

bool is_finite_half(uint16_t half) {
  return (half & 0x7c00U) != 0x7c00U;
}

bool is_sound(BlockType type, const uint8_t* block) {
  if (type == BlockType::iq1_m) return is_finite_half(iq1_m_scale(block + 48));
  if (type == BlockType::mxfp4) return block[0] <= kLargestE8m0;
  const ScalePlaces places = kPlaces[static_cast<size_t>(type)];
  return (places.first < 0 || is_finite_half(half_at(block + places.first))) &&
         (places.second < 0 || is_finite_half(half_at(block + places.second)));
}

}  // namespace

const BlockForm& block_form(BlockType type) {
  return kForms[static_cast<size_t>(type)];
}

void read_block(BlockType type, const uint8_t* block, BlockCodes& out) {
  kReaders[static_cast<size_t>(type)](block, out);
}

BlockGroup group_of_block(const BlockForm& form, const BlockCodes& block, int32_t group) {
  const float whole = half_to_float(block.scales[0]);
  const float whole_min = half_to_float(block.mins[0]);
  const uint8_t byte = block.group_scales[group];
  switch (form.terms) {
    case BlockTerms::half:
      return {half_to_float(block.scales[group]), 0.0f};
    case BlockTerms::half_min:
      return {half_to_float(block.scales[group]), half_to_float(block.mins[group])};
    case BlockTerms::bytes:
      return {whole * static_cast<float>(static_cast<int8_t>(byte)), 0.0f};
    case BlockTerms::bytes_min:
      return {whole * static_cast<float>(byte), whole_min * static_cast<float>(block.group_mins[group])};
    case BlockTerms::nibbles_min:
      return {whole * static_cast<float>(byte & 15), whole_min * static_cast<float>(byte >> 4)};
    case BlockTerms::e4m3:
      return {half_to_float(static_cast<uint16_t>(byte << 7)) * 256.0f, 0.0f};
    case BlockTerms::e8m0:
      return {e8m0_to_float(byte), 0.0f};
  }
  return {};
}

void decode_blocks(BlockType type, const void* blocks, size_t count, float* out) {
  const BlockShape& shape = block_shape(type);
  const BlockForm& form = block_form(type);
  const auto* bytes = static_cast<const uint8_t*>(blocks);
  BlockCodes block = {};
  for (size_t b = 0; b < count; ++b, bytes += shape.bytes) {
    read_block(type, bytes, block);
    for (int32_t first = 0; first < shape.weights; first += form.group) {
      const BlockGroup group = group_of_block(form, block, first / form.group);
      for (int32_t j = first; j < first + form.group; ++j) {
        const int32_t value = form.values != nullptr ? form.values[block.codes[j]] : block.codes[j];
        const float scaled = static_cast<float>(value - form.zero) * (group.scale * form.factor);
        *out++ = has_min(form.terms) ? scaled - group.min : scaled;
      }
    }
  }
}

size_t first_unsound_block(BlockType type, const void* blocks, size_t count) {
  const auto* bytes = static_cast<const uint8_t*>(blocks);
  size_t b = 0;
  while (b < count && is_sound(type, bytes + b * static_cast<size_t>(block_shape(type).bytes))) ++b;
  return b;
}

}  // namespace quire::kernels
