#include "kernels/interface/trellis.h"

#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

// Returns the sum of two f16, rounded to f16. It is exact in f32 for the halves of a code.
uint16_t sum_of_halves(uint32_t pair) {
  const float low = half_to_float(static_cast<uint16_t>(pair & 0xffffU));
  const float high = half_to_float(static_cast<uint16_t>(pair >> 16));
  return float_to_half(low + high);
}

uint16_t mul1_value(uint32_t product) {
  const uint32_t sum = (product & 255U) + (product >> 8 & 255U) + (product >> 16 & 255U) + (product >> 24);
  // The product of two f16 and the sum are exact in f32, so the result is rounded once.
  const float scale = half_to_float(0x1eee), offset = half_to_float(0xc931);
  const float scaled = static_cast<float>(1024U + sum) * scale;
  return float_to_half(scaled + offset);
}

// Returns bit `index` of a tile. Words of 32 bits follow each other, each from its highest bit down.
uint32_t bit_of(const uint16_t* tile, int32_t index) {
  const int32_t half = index / 16 ^ 1;
  return static_cast<uint32_t>(tile[half]) >> (15 - index % 16) & 1U;
}

// Returns the place in a row-major tile of the weight that comes `step`-th in the stream.
size_t place_of_step(int32_t step) {
  const int32_t lane = step / 8, element = step % 8;
  const int32_t row = 2 * (lane % 4) + (element & 1) + 8 * (element >> 1 & 1);
  const int32_t column = lane / 4 + 8 * (element >> 2);
  return static_cast<size_t>(row * kTrellisTile + column);
}

}  // namespace

uint16_t trellis_value(TrellisCodebook codebook, uint16_t code) {
  uint32_t product = code * trellis_multiplier(codebook);
  if (codebook == TrellisCodebook::mul1) return mul1_value(product);
  if (codebook == TrellisCodebook::three_inst) product += kTrellisAddend;
  return sum_of_halves((product & 0x8fff8fffU) ^ 0x3b603b60U);
}

void read_trellis_tile(const uint16_t* tile, int32_t half_bits, uint16_t (&codes)[256]) {
  const int32_t num_bits = 16 * trellis_tile_words(half_bits);
  for (int32_t step = 0; step < 256; ++step) {
    // The code of a weight is the 16 bits that end with its own; before the first bit comes the last.
    const int32_t end = (step + 1) * half_bits / 2;
    uint32_t code = 0;
    for (int32_t bit = end - 16; bit < end; ++bit)
      code = code << 1 | bit_of(tile, (bit + num_bits) % num_bits);
    codes[place_of_step(step)] = static_cast<uint16_t>(code);
  }
}

void hadamard_transform(float* values, size_t stride) {
  for (size_t distance = 1; distance < kHadamardOrder; distance *= 2) {
    for (size_t i = 0; i < kHadamardOrder; ++i) {
      if ((i & distance) != 0) continue;
      float& a = values[i * stride];
      float& b = values[(i + distance) * stride];
      const float sum = a + b, difference = a - b;
      a = sum;
      b = difference;
    }
  }
}

}  // namespace quire::kernels
