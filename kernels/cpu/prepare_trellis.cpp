#include <algorithm>

#include "kernels/cpu/device.h"
#include "kernels/cpu/weight.h"
#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

constexpr int32_t kTilesOfTransform = kHadamardOrder / kTrellisTile;

// Returns the first word of a stored tile.
const uint16_t* tile_at(const WeightSource& source, int32_t row, int32_t column) {
  const int64_t index = int64_t{row} * (source.padded_out / kTrellisTile) + column;
  return source.trellis.tiles + index * trellis_tile_words(source.trellis.half_bits);
}

// Stores word after word of the eight streams of a tile, 16 words apart. In the file a stream follows the
// other, and the halves of words of 32 bits are swapped.
void place_tile(const uint16_t* tile, int32_t half_bits, uint16_t* target) {
  for (int32_t stream = 0; stream < 8; ++stream)
    for (int32_t word = 0; word < half_bits; ++word)
      target[ptrdiff_t{16} * word + stream] = tile[(stream * half_bits + word) ^ 1];
}

void fill_panel(const WeightSource& source, int32_t stored_panel, uint16_t* words) {
  const int32_t half_bits = source.trellis.half_bits;
  const int32_t first_column = stored_panel * kTilesOfTransform;
  const int32_t num_rows = hadamard_padded(source.num_in) / kTrellisTile;
  for (int32_t first = 0; first < num_rows; first += kTilesOfTransform) {
    for (int32_t pair = 0; pair < kTilesOfTransform; pair += 2) {
      for (int32_t row = first; row < first + kTilesOfTransform; ++row, words += ptrdiff_t{16} * half_bits) {
        place_tile(tile_at(source, row, first_column + pair), half_bits, words);
        place_tile(tile_at(source, row, first_column + pair + 1), half_bits, words + 8);
      }
    }
  }
}

void fill_terms(Device& device, const WeightSource& source, const TrellisLayout& layout,
                TrellisTerms& terms) {
  const auto inputs = static_cast<size_t>(hadamard_padded(source.num_in));
  terms.input_scales = AlignedBuffer(device.meter, inputs * sizeof(uint16_t));
  std::copy_n(source.trellis.input_scales, inputs, terms.input_scales.as<uint16_t>());
  terms.output_scales =
      AlignedBuffer(device.meter, layout.stored_panels.size() * kHadamardOrder * sizeof(float));
  float* scale = terms.output_scales.as<float>();
  for (const int32_t panel : layout.stored_panels) {
    const uint16_t* stored = source.trellis.output_scales + ptrdiff_t{panel} * kHadamardOrder;
    for (int32_t lane = 0; lane < kHadamardOrder; ++lane)
      *scale++ = half_to_float(stored[lane]) * (source.prescale / kHadamardOrder);
  }
  terms.runs = AlignedBuffer(device.meter, layout.runs.size() * sizeof(OutputRun));
  std::copy(layout.runs.begin(), layout.runs.end(), terms.runs.as<OutputRun>());
  terms.runs_of_panel = layout.runs_of_panel;
}

}  // namespace

void prepare_trellis_part(Device& device, const WeightSource& source, const PartLayout& layout,
                          WeightPart& part) {
  part.trellis.codebook = source.trellis.codebook;
  part.trellis.half_bits = source.trellis.half_bits;
  fill_terms(device, source, layout.trellis, part.trellis);
  device.pool.share(part.num_panels, 1, [&](int32_t, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; ++panel)
      fill_panel(source, layout.trellis.stored_panels[static_cast<size_t>(panel)],
                 reinterpret_cast<uint16_t*>(part.data.as<uint8_t>() +
                                             static_cast<size_t>(panel) * part.panel_bytes));
  });
}

}  // namespace quire::kernels
