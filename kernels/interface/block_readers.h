// Reads blocks of each type as codes and terms. Cards read blocks too, so the grids of the IQ types are a
// parameter: a card has them in its own memory.
#pragma once

#include "kernels/interface/block_codes.h"
#include "kernels/interface/host_and_device.h"

namespace quire::kernels {

QUIRE_HOST_AND_DEVICE inline uint16_t half_at(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | p[1] << 8);
}
QUIRE_HOST_AND_DEVICE inline uint32_t word_at(const uint8_t* p) {
  return static_cast<uint32_t>(half_at(p)) | static_cast<uint32_t>(half_at(p + 2)) << 16;
}

// Bytes of `count` pairs of nibbles: the low ones are the first `count` weights.
QUIRE_HOST_AND_DEVICE inline void read_nibbles(const uint8_t* bytes, int count, uint8_t* codes) {
  for (int j = 0; j < count; ++j) {
    codes[j] = bytes[j] & 15;
    codes[j + count] = bytes[j] >> 4;
  }
}

// Adds bit j of `bits` to code j, as its bit 4.
QUIRE_HOST_AND_DEVICE inline void add_fifth_bits(uint32_t bits, uint8_t* codes) {
  for (int j = 0; j < 32; ++j) codes[j] = static_cast<uint8_t>(codes[j] | ((bits >> j & 1U) << 4));
}

// Subtracting the negative of a number adds it.
QUIRE_HOST_AND_DEVICE inline uint16_t negated(uint16_t half) {
  return half ^ 0x8000U;
}

QUIRE_HOST_AND_DEVICE inline void read_q4_0(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  read_nibbles(block + 2, 16, out.codes);
}

QUIRE_HOST_AND_DEVICE inline void read_q4_1(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = negated(half_at(block + 2));
  read_nibbles(block + 4, 16, out.codes);
}

QUIRE_HOST_AND_DEVICE inline void read_q5_0(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  read_nibbles(block + 6, 16, out.codes);
  add_fifth_bits(word_at(block + 2), out.codes);
}

QUIRE_HOST_AND_DEVICE inline void read_q5_1(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = negated(half_at(block + 2));
  read_nibbles(block + 8, 16, out.codes);
  add_fifth_bits(word_at(block + 4), out.codes);
}

QUIRE_HOST_AND_DEVICE inline void read_q8_0(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int j = 0; j < 32; ++j) out.codes[j] = block[2 + j] ^ 0x80U;
}

// Codes of two bits of 128 weights in 32 bytes: each pair of bits holds 32 weights.
QUIRE_HOST_AND_DEVICE inline void read_pairs(const uint8_t* bytes, uint8_t* codes) {
  for (int pair = 0; pair < 4; ++pair)
    for (int j = 0; j < 32; ++j) codes[32 * pair + j] = bytes[j] >> (2 * pair) & 3;
}

QUIRE_HOST_AND_DEVICE inline void read_q2_k(const uint8_t* block, BlockCodes& out) {
  for (int g = 0; g < 16; ++g) out.group_scales[g] = block[g];
  read_pairs(block + 16, out.codes);
  read_pairs(block + 48, out.codes + 128);
  out.scales[0] = half_at(block + 80);
  out.mins[0] = half_at(block + 82);
}

// Sixteen numbers of six bits: four low bits in eight bytes, two high bits in four.
QUIRE_HOST_AND_DEVICE inline void read_q3_k_factors(const uint8_t* bytes, uint8_t* factors) {
  for (int g = 0; g < 16; ++g) {
    const int low = g < 8 ? bytes[g] & 15 : bytes[g - 8] >> 4;
    const int high = bytes[8 + g % 4] >> (2 * (g / 4)) & 3;
    factors[g] = static_cast<uint8_t>((low | high << 4) - 32);
  }
}

QUIRE_HOST_AND_DEVICE inline void read_q3_k(const uint8_t* block, BlockCodes& out) {
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
QUIRE_HOST_AND_DEVICE inline void read_k_factors(const uint8_t* bytes, BlockCodes& out) {
  for (int j = 0; j < 4; ++j) {
    out.group_scales[j] = bytes[j] & 63;
    out.group_mins[j] = bytes[j + 4] & 63;
    out.group_scales[j + 4] = static_cast<uint8_t>((bytes[j + 8] & 15) | bytes[j] >> 6 << 4);
    out.group_mins[j + 4] = static_cast<uint8_t>(bytes[j + 8] >> 4 | bytes[j + 4] >> 6 << 4);
  }
}

QUIRE_HOST_AND_DEVICE inline void read_q4_k(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = half_at(block + 2);
  read_k_factors(block + 4, out);
  for (int i = 0; i < 4; ++i) read_nibbles(block + 16 + 32 * i, 32, out.codes + 64 * i);
}

QUIRE_HOST_AND_DEVICE inline void read_q5_k(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  out.mins[0] = half_at(block + 2);
  read_k_factors(block + 4, out);
  const uint8_t* high = block + 16;
  for (int i = 0; i < 4; ++i) read_nibbles(block + 48 + 32 * i, 32, out.codes + 64 * i);
  for (int part = 0; part < 8; ++part)
    for (int j = 0; j < 32; ++j)
      out.codes[32 * part + j] = static_cast<uint8_t>(out.codes[32 * part + j] | (high[j] >> part & 1) << 4);
}

QUIRE_HOST_AND_DEVICE inline void read_q6_k(const uint8_t* block, BlockCodes& out) {
  for (int half = 0; half < 2; ++half) {
    const uint8_t* low = block + 64 * half;
    const uint8_t* high = block + 128 + 32 * half;
    uint8_t* codes = out.codes + 128 * half;
    read_nibbles(low, 64, codes);
    for (int part = 0; part < 4; ++part)
      for (int j = 0; j < 32; ++j)
        codes[32 * part + j] = static_cast<uint8_t>(codes[32 * part + j] | (high[j] >> (2 * part) & 3) << 4);
  }
  for (int g = 0; g < 16; ++g) out.group_scales[g] = block[192 + g];
  out.scales[0] = half_at(block + 208);
}

// Bits of an IQ type's eight signs: seven are stored, and the eighth makes their number even.
QUIRE_HOST_AND_DEVICE inline uint32_t even_signs(uint32_t seven) {
  uint32_t odd = seven ^ seven >> 4;
  odd ^= odd >> 2;
  odd ^= odd >> 1;
  return seven | (odd & 1U) << 7;
}

// Writes kCount codes. The low kBits of a code are the next bits of `grid`, and the bit above them is the
// next bit of `signs`.
template <int kCount, int kBits>
QUIRE_HOST_AND_DEVICE inline void write_signed(uint32_t grid, uint32_t signs, uint8_t* codes) {
  constexpr uint32_t kMask = (1U << kBits) - 1;
  for (int j = 0; j < kCount; ++j)
    codes[j] = static_cast<uint8_t>((grid >> (kBits * j) & kMask) | (signs >> j & 1U) << kBits);
}

QUIRE_HOST_AND_DEVICE inline uint8_t odd_factor(uint32_t stored) {
  return static_cast<uint8_t>(2 * stored + 1);
}

QUIRE_HOST_AND_DEVICE inline void read_iq1_s(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int g = 0; g < 8; ++g) {
    const uint32_t high = half_at(block + 34 + 2 * g);
    out.group_scales[2 * g] = out.group_scales[2 * g + 1] = odd_factor(high >> 12 & 7U);
    for (int i = 0; i < 4; ++i) {
      const uint32_t index = block[2 + 4 * g + i] | (high >> (3 * i) & 7U) << 8;
      write_signed<8, 2>(grid[index], high >> 15 != 0 ? 255 : 0, out.codes + 32 * g + 8 * i);
    }
  }
}

// The f16 scale lies in the high four bits of the four words of factors.
QUIRE_HOST_AND_DEVICE inline uint16_t iq1_m_scale(const uint8_t* words) {
  uint32_t scale = 0;
  for (int i = 0; i < 4; ++i) scale |= static_cast<uint32_t>(half_at(words + 2 * i) >> 12) << (4 * i);
  return static_cast<uint16_t>(scale);
}

QUIRE_HOST_AND_DEVICE inline void read_iq1_m(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  const uint8_t* words = block + 48;
  out.scales[0] = iq1_m_scale(words);
  for (int g = 0; g < 16; ++g)
    out.group_scales[g] = odd_factor(static_cast<uint32_t>(half_at(words + g / 4 * 2)) >> (3 * (g % 4)) & 7U);
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = static_cast<uint32_t>(block[32 + i / 2]) >> (4 * (i % 2)) & 15U;
    write_signed<8, 2>(grid[block[i] | (high & 7U) << 8], high >> 3 != 0 ? 255 : 0, out.codes + 8 * i);
  }
}

QUIRE_HOST_AND_DEVICE inline void read_iq2_xxs(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int g = 0; g < 8; ++g) {
    const uint8_t* indices = block + 2 + 8 * g;
    const uint32_t signs = word_at(indices + 4);
    out.group_scales[2 * g] = out.group_scales[2 * g + 1] = odd_factor(signs >> 28);
    for (int i = 0; i < 4; ++i)
      write_signed<8, 2>(grid[indices[i]], even_signs(signs >> (7 * i) & 127U), out.codes + 32 * g + 8 * i);
  }
}

// Factors of sixteen groups, four bits each.
QUIRE_HOST_AND_DEVICE inline void read_odd_factors(const uint8_t* bytes, BlockCodes& out) {
  for (int g = 0; g < 16; ++g) out.group_scales[g] = odd_factor(bytes[g / 2] >> (4 * (g % 2)) & 15U);
}

QUIRE_HOST_AND_DEVICE inline void read_iq2_xs(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = half_at(block + 2 + 2 * i);
    write_signed<8, 2>(grid[word & 511U], even_signs(word >> 9), out.codes + 8 * i);
  }
  read_odd_factors(block + 66, out);
}

QUIRE_HOST_AND_DEVICE inline void read_iq2_s(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = block[66 + i / 4] >> (2 * (i % 4)) & 3U;
    write_signed<8, 2>(grid[block[2 + i] | high << 8], block[34 + i], out.codes + 8 * i);
  }
  read_odd_factors(block + 74, out);
}

QUIRE_HOST_AND_DEVICE inline void read_iq3_xxs(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int g = 0; g < 8; ++g) {
    const uint32_t stored = word_at(block + 66 + 4 * g);
    out.group_scales[g] = odd_factor(stored >> 28);
    for (int i = 0; i < 8; ++i) {
      const uint32_t signs = even_signs(stored >> (7 * (i / 2)) & 127U) >> (4 * (i % 2));
      write_signed<4, 3>(grid[block[2 + 8 * g + i]], signs, out.codes + 32 * g + 4 * i);
    }
  }
}

QUIRE_HOST_AND_DEVICE inline void read_iq3_s(const uint8_t* block, const uint16_t* grid, BlockCodes& out) {
  out.scales[0] = half_at(block);
  for (int i = 0; i < 64; ++i) {
    const uint32_t high = block[66 + i / 8] >> (i % 8) & 1U;
    const uint32_t signs = static_cast<uint32_t>(block[74 + i / 2]) >> (4 * (i % 2));
    write_signed<4, 3>(grid[block[2 + i] | high << 8], signs, out.codes + 4 * i);
  }
  for (int g = 0; g < 8; ++g) out.group_scales[g] = odd_factor(block[106 + g / 2] >> (4 * (g % 2)) & 15U);
}

QUIRE_HOST_AND_DEVICE inline void read_iq4_xs(const uint8_t* block, BlockCodes& out) {
  out.scales[0] = half_at(block);
  const uint32_t high = half_at(block + 2);
  for (int g = 0; g < 8; ++g) {
    const uint32_t low = block[4 + g / 2] >> (4 * (g % 2)) & 15U;
    out.group_scales[g] = static_cast<uint8_t>((low | (high >> (2 * g) & 3U) << 4) - 32U);
    read_nibbles(block + 8 + 16 * g, 16, out.codes + 32 * g);
  }
}

// One scale for several groups of 32.
QUIRE_HOST_AND_DEVICE inline void repeat_scale(uint16_t scale, int groups, BlockCodes& out) {
  for (int g = 0; g < groups; ++g) out.scales[g] = scale;
}

// Digits of base three: the n-th of a byte is the integer part of 3 * fraction(byte * 3^n / 256).
QUIRE_HOST_AND_DEVICE inline void read_digits(const uint8_t* bytes, int count, int digits, uint8_t* codes) {
  uint32_t power = 1;
  for (int n = 0; n < digits; ++n, power *= 3)
    for (int j = 0; j < count; ++j)
      codes[n * count + j] = static_cast<uint8_t>((bytes[j] * power & 255U) * 3U >> 8);
}

QUIRE_HOST_AND_DEVICE inline void read_tq1_0(const uint8_t* block, BlockCodes& out) {
  read_digits(block, 32, 5, out.codes);
  read_digits(block + 32, 16, 5, out.codes + 160);
  read_digits(block + 48, 4, 4, out.codes + 240);
  repeat_scale(half_at(block + 52), 8, out);
}

QUIRE_HOST_AND_DEVICE inline void read_tq2_0(const uint8_t* block, BlockCodes& out) {
  read_pairs(block, out.codes);
  read_pairs(block + 32, out.codes + 128);
  repeat_scale(half_at(block + 64), 8, out);
}

QUIRE_HOST_AND_DEVICE inline void read_mxfp4(const uint8_t* block, BlockCodes& out) {
  out.group_scales[0] = block[0];
  read_nibbles(block + 1, 16, out.codes);
}

// ggml reads 0x7f as 0 and ignores the sign bit otherwise.
QUIRE_HOST_AND_DEVICE inline uint8_t unsigned_e4m3(uint8_t stored) {
  return stored == 0x7f ? uint8_t{0} : static_cast<uint8_t>(stored & 0x7fU);
}

QUIRE_HOST_AND_DEVICE inline void read_nvfp4(const uint8_t* block, BlockCodes& out) {
  for (int g = 0; g < 4; ++g) {
    out.group_scales[g] = unsigned_e4m3(block[g]);
    read_nibbles(block + 4 + 8 * g, 8, out.codes + 16 * g);
  }
}

QUIRE_HOST_AND_DEVICE inline void read_q1_0(const uint8_t* block, BlockCodes& out) {
  repeat_scale(half_at(block), 4, out);
  for (int j = 0; j < 128; ++j) out.codes[j] = static_cast<uint8_t>((block[2 + j / 8] >> (j % 8) & 1) * 2);
}

QUIRE_HOST_AND_DEVICE inline void read_q2_0(const uint8_t* block, BlockCodes& out) {
  repeat_scale(half_at(block), 2, out);
  for (int j = 0; j < 64; ++j) out.codes[j] = block[2 + j / 4] >> (2 * (j % 4)) & 3;
}

// Does the same as read_block. `grid` is block_grid of the type.
QUIRE_HOST_AND_DEVICE inline void read_block_with(const uint16_t* grid, BlockType type, const uint8_t* block,
                                                  BlockCodes& out) {
  switch (type) {
    case BlockType::none:
      return;
    case BlockType::q4_0:
      return read_q4_0(block, out);
    case BlockType::q4_1:
      return read_q4_1(block, out);
    case BlockType::q5_0:
      return read_q5_0(block, out);
    case BlockType::q5_1:
      return read_q5_1(block, out);
    case BlockType::q8_0:
      return read_q8_0(block, out);
    case BlockType::q2_k:
      return read_q2_k(block, out);
    case BlockType::q3_k:
      return read_q3_k(block, out);
    case BlockType::q4_k:
      return read_q4_k(block, out);
    case BlockType::q5_k:
      return read_q5_k(block, out);
    case BlockType::q6_k:
      return read_q6_k(block, out);
    case BlockType::iq1_s:
      return read_iq1_s(block, grid, out);
    case BlockType::iq1_m:
      return read_iq1_m(block, grid, out);
    case BlockType::iq2_xxs:
      return read_iq2_xxs(block, grid, out);
    case BlockType::iq2_xs:
      return read_iq2_xs(block, grid, out);
    case BlockType::iq2_s:
      return read_iq2_s(block, grid, out);
    case BlockType::iq3_xxs:
      return read_iq3_xxs(block, grid, out);
    case BlockType::iq3_s:
      return read_iq3_s(block, grid, out);
    case BlockType::iq4_nl:
      return read_q4_0(block, out);
    case BlockType::iq4_xs:
      return read_iq4_xs(block, out);
    case BlockType::tq1_0:
      return read_tq1_0(block, out);
    case BlockType::tq2_0:
      return read_tq2_0(block, out);
    case BlockType::mxfp4:
      return read_mxfp4(block, out);
    case BlockType::nvfp4:
      return read_nvfp4(block, out);
    case BlockType::q1_0:
      return read_q1_0(block, out);
    case BlockType::q2_0:
      return read_q2_0(block, out);
  }
}

}  // namespace quire::kernels
