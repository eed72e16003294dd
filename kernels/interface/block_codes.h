// The one form of all block types: codes of 2 to 8 bits, and for each group of 16 or 32 weights a scale and a
// minimum.
//
//   W = (value - zero) * scale - min, with value = values[code], or the code itself.
//
// Every type becomes this form exactly (docs/adr/0067): scales and minima are products of two numbers that a
// float holds exactly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/interface/block_types.h"
#include "kernels/interface/host_and_device.h"

namespace quire::kernels {

// How the scales and minima of a form are stored.
enum class BlockTerms : uint8_t {
  half,         // f16 scale for each 32 weights
  half_min,     // and f16 min
  bytes,        // f16 scale for each 256, i8 factor of it for each group
  bytes_min,    // and f16 min for each 256, u8 factors of both for each group
  nibbles_min,  // the same with factors of 4 bits: that of the scale in the low half of a byte
  e4m3,         // E4M3 scale for each group; its sign bit is 0
  e8m0,         // E8M0 scale for each 32 weights
};

QUIRE_HOST_AND_DEVICE constexpr bool has_min(BlockTerms terms) {
  return terms == BlockTerms::half_min || terms == BlockTerms::bytes_min || terms == BlockTerms::nibbles_min;
}
// True if 256 weights share a scale, of which groups have factors.
QUIRE_HOST_AND_DEVICE constexpr bool has_factors(BlockTerms terms) {
  return terms == BlockTerms::bytes || terms == BlockTerms::bytes_min || terms == BlockTerms::nibbles_min;
}

struct BlockForm {
  int32_t bits = 0;    // of a code: 2, 3, 4, 5, 6 or 8
  int32_t group = 32;  // weights of a group: 16 or 32
  BlockTerms terms = BlockTerms::half;
  int32_t zero = 0;
  const uint8_t* values = nullptr;  // [16] of codes of 3 or 4 bits; nullptr: the codes themselves
  float factor = 1.0f;              // power of two that multiplies all scales
};

// `type` is not none.
const BlockForm& block_form(BlockType type);

// One block as codes and terms. Unused entries are unspecified.
struct BlockCodes {
  uint8_t codes[kMaxBlockWeights];
  // f16 scales and minima: one for each 32 weights, or only the first if has_factors(terms).
  uint16_t scales[kMaxBlockWeights / 32];
  uint16_t mins[kMaxBlockWeights / 32];
  // For each group: the factor, or the E4M3 or E8M0 scale. With nibbles_min, both factors.
  uint8_t group_scales[kMaxBlockWeights / 16];
  uint8_t group_mins[kMaxBlockWeights / 16];  // bytes_min
};

// Grid of an IQ type: block_grids.h. Types without one have no indices.
struct BlockGrid {
  const uint16_t* indices = nullptr;
  size_t count = 0;
};
BlockGrid block_grid(BlockType type);

// Reads a block. Every bit pattern is a valid block.
void read_block(BlockType type, const uint8_t* block, BlockCodes& out);

// Scale and minimum of a group as floats. BlockForm::factor is not included.
struct BlockGroup {
  float scale = 0.0f;
  float min = 0.0f;
};
BlockGroup group_of_block(const BlockForm& form, const BlockCodes& block, int32_t group);

}  // namespace quire::kernels
