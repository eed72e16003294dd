#include <cstddef>

#include "kernels/cpu/linear_trellis.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

constexpr size_t kOrder = kHadamardOrder;
constexpr size_t kTile = kTrellisTile;

// Reads a tile out of the words of its pair (TrellisPanel), which begin with its first stream.
void read_tile(const TrellisTerms& terms, const uint16_t* words, float* block) {
  uint16_t tile[16 * 8];
  for (int32_t stream = 0; stream < 8; ++stream)
    for (int32_t word = 0; word < terms.half_bits; ++word)
      tile[(stream * terms.half_bits + word) ^ 1] = words[ptrdiff_t{16} * word + stream];
  uint16_t codes[256];
  read_trellis_tile(tile, terms.half_bits, codes);
  for (size_t i = 0; i < kTile * kTile; ++i)
    block[i / kTile * kOrder + i % kTile] = half_to_float(trellis_value(terms.codebook, codes[i]));
}

// Reads 128 rows of a panel, transformed on both sides: [128][128].
void read_block(const TrellisTerms& terms, const uint16_t* words, float* block) {
  for (size_t column = 0; column < kOrder; column += 2 * kTile) {
    for (size_t row = 0; row < kOrder; row += kTile, words += ptrdiff_t{16} * terms.half_bits) {
      read_tile(terms, words, block + row * kOrder + column);
      read_tile(terms, words + 8, block + row * kOrder + column + kTile);
    }
  }
  for (size_t i = 0; i < kOrder; ++i) hadamard_transform(block + i, kOrder);
  for (size_t i = 0; i < kOrder; ++i) hadamard_transform(block + i * kOrder, 1);
}

}  // namespace

void dequantize_trellis(const WeightPart& part, int32_t num_in, size_t panel, float* target,
                        size_t row_floats) {
  const TrellisTerms& terms = part.trellis;
  const auto* words = reinterpret_cast<const uint16_t*>(part.data.as<uint8_t>() + panel * part.panel_bytes);
  const auto* input_scales = terms.input_scales.as<uint16_t>();
  const float* output_scales = terms.output_scales.as<float>() + panel * kOrder;
  const auto inputs = static_cast<size_t>(num_in);
  float block[kOrder * kOrder];
  for (size_t first = 0; first < inputs; first += kOrder) {
    read_block(terms, words, block);
    words += kOrder * kOrder / 32 * static_cast<size_t>(terms.half_bits);
    for (size_t k = first; k < inputs && k < first + kOrder; ++k) {
      const float scale = half_to_float(input_scales[k]);
      const float* row = block + (k - first) * kOrder;
      for (int32_t i = terms.runs_of_panel[panel]; i < terms.runs_of_panel[panel + 1]; ++i) {
        const OutputRun& run = terms.runs.as<OutputRun>()[i];
        float* out = target + k * row_floats + run.output;
        for (int32_t c = 0; c < run.count; ++c)
          out[c] = row[run.lane + c] * scale * output_scales[run.lane + c];
      }
    }
  }
}

}  // namespace quire::kernels
