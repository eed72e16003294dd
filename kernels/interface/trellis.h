// Matrices of EXL3 (docs/adr/0069): tiles of 16 x 16 weights between two Hadamard transforms.
//
//   W = diag(input scales) * H * T * H * diag(output scales) / 128
//
// H is the Sylvester matrix of order 128 in blocks along the diagonal, with entries of 1 and -1. T is the
// matrix of the tiles. docs/formats.md has its bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels {

// Rows and columns of a tile.
inline constexpr int32_t kTrellisTile = 16;
// Order of the Hadamard matrix. Inputs and outputs are padded to multiples of it.
inline constexpr int32_t kHadamardOrder = 128;

// The function from codes of 16 bits to values. Its names in config.json are "3inst", "mcg" and "mul1".
enum class TrellisCodebook : uint8_t { three_inst, mcg, mul1 };

// Multiplier of a codebook, as files store it beside a matrix.
constexpr uint32_t trellis_multiplier(TrellisCodebook codebook) {
  return codebook == TrellisCodebook::three_inst ? 89226354U
         : codebook == TrellisCodebook::mcg      ? 0xcbac1fedU
                                                 : 0x83dcd12dU;
}

// Addend of 3inst.
inline constexpr uint32_t kTrellisAddend = 64248484U;

// A width is twice the bits of a weight, so that it is an integer for half bits too.
// Returns whether files may have tiles of that width: 1 to 8 bits, and with mul1 1.5, 2.5 and 3.5.
constexpr bool is_trellis_width(int32_t half_bits, TrellisCodebook codebook) {
  if (half_bits < 2 || half_bits > 16) return false;
  return half_bits % 2 == 0 || (half_bits <= 7 && codebook == TrellisCodebook::mul1);
}

// Returns the words of 16 bits of a tile.
constexpr int32_t trellis_tile_words(int32_t half_bits) {
  return kTrellisTile * kTrellisTile * half_bits / 32;
}

// Returns the size that is padded to whole Hadamard transforms; at most the largest multiple of 128.
constexpr int32_t hadamard_padded(int32_t size) {
  constexpr int32_t kLargest = 0x7fffff80;
  return size > kLargest ? kLargest : (size + kHadamardOrder - 1) / kHadamardOrder * kHadamardOrder;
}

// Returns the bits of an f16: the value of a code.
uint16_t trellis_value(TrellisCodebook codebook, uint16_t code);

// Reads the codes of a tile, row by row. `tile` has trellis_tile_words(half_bits) words as in a file; every
// bit pattern is a valid tile.
void read_trellis_tile(const uint16_t* tile, int32_t half_bits, uint16_t (&codes)[256]);

// Multiplies kHadamardOrder values, `stride` apart, by the Hadamard matrix.
void hadamard_transform(float* values, size_t stride);

}  // namespace quire::kernels
