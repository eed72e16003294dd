// Tiles of EXL3 matrices (docs/adr/0069): the bits of the file, in the order in which lanes
// decode them.
//
// The 256 weights of a 16 x 16 tile are a ring of bits: eight streams of 32 weights, stream g for the columns
// g and g + 8. A half strip has eight tiles below each other in a segment of 128 rows. Lane 4g+t of a warp
// has stream g of the tiles 2t and 2t + 1, 64 weights, so it reads the bits of two whole streams and, before
// each of them, up to 15 bits of the stream before, which lane 4(g - 1)+t has. Half a stream, 16 weights, is
// the lane's part of a step: 8 rows of two columns.
//
// So the rows of a segment are in an order of their own, the same for all matrices: stored row 32s + 8t + 4j
// + 2r + x has input feature 16(2t + s/2) + 4(s mod 2) + 2j + 8r + x of the 128. The inputs are transformed
// before the product, and the transform writes them in this order.
//
// A segment has, for each half strip, one or two units: the bits of a stream, or of both if a weight has half
// bits, since one alone is no whole number of words. Words of a unit lie in planes of four, two and one word
// of each lane. The first bit of a stream is the highest of its first word.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/plan/matrix.h"
#include "kernels/interface/host_and_device.h"
#include "kernels/interface/weight_source.h"

namespace quire::kernels {

static_assert(kBlockRows == kHadamardOrder);
// Strips that one Hadamard transform of outputs combines.
constexpr int kTransformStrips = kHadamardOrder / kStripColumns;

// Number of a form in Run::bits: twice the bits of a weight, and the codebook.
constexpr int32_t trellis_form(int32_t half_bits, TrellisCodebook codebook) {
  return half_bits | static_cast<int32_t>(codebook) << 5;
}
QUIRE_HOST_AND_DEVICE constexpr int32_t trellis_half_bits(int32_t form) {
  return form & 31;
}
QUIRE_HOST_AND_DEVICE constexpr TrellisCodebook trellis_codebook(int32_t form) {
  return static_cast<TrellisCodebook>(form >> 5);
}

// Returns the bytes of a half strip in a segment, and of the segment.
QUIRE_HOST_AND_DEVICE constexpr uint32_t trellis_half_bytes(int32_t half_bits) {
  return static_cast<uint32_t>(half_bits) * 128;
}
constexpr uint32_t trellis_segment_bytes(int32_t half_bits) {
  return 2 * trellis_half_bytes(half_bits);
}

// Returns the words that a lane has of a unit.
QUIRE_HOST_AND_DEVICE constexpr int32_t trellis_unit_words(int32_t half_bits) {
  return half_bits % 2 == 0 ? half_bits / 2 : half_bits;
}
// Returns the offset of a lane's word from the first byte of its unit, which has `words` of each lane.
QUIRE_HOST_AND_DEVICE constexpr int32_t trellis_word_place(int32_t words, int32_t word, int32_t lane) {
  const int32_t fours = words / 4, left = words % 4;
  if (word < 4 * fours) return word / 4 * 512 + lane * 16 + word % 4 * 4;
  const int32_t place = fours * 512, local = word - 4 * fours;
  if (left < 2) return place + lane * 4;
  return local < 2 ? place + lane * 8 + local * 4 : place + 256 + lane * 4;
}

// Returns the stored row of an input feature, both of the 128 of a segment.
QUIRE_HOST_AND_DEVICE constexpr int32_t trellis_stored_row(int32_t feature) {
  const int32_t tile = feature >> 4, row = feature & 15;
  const int32_t step = 2 * (tile & 1) + (row >> 2 & 1);
  return 32 * step + 8 * (tile >> 1) + 4 * (row >> 1 & 1) + 2 * (row >> 3) + (row & 1);
}

// Return the rows of inputs in shared memory of the narrow kernel, and the number of the one that is not
// transformed. The others are those of the parts; a single part is transformed in place.
constexpr int32_t trellis_input_rows(int32_t num_parts) {
  return num_parts == 1 ? 1 : num_parts + 1;
}
QUIRE_HOST_AND_DEVICE constexpr int32_t trellis_input_row(int32_t num_parts) {
  return num_parts == 1 ? 0 : num_parts;
}

// Transforms of outputs that are kept, and the output that reads each of their columns; -1: none. A transform
// is kept twice if two outputs read the same column.
struct TrellisColumns {
  std::vector<int32_t> stored;   // [transforms] number in the file
  std::vector<int32_t> outputs;  // [transforms, 128]
};
TrellisColumns trellis_columns(const WeightSource& source);

// Scales in f32: x' = H (x * inputs), y = (H z) * outputs. The inputs' are those of the file times a power of
// two, so that the largest is from 2^-5 to 2^-4: then f16 holds the transform of any row that it holds.
struct TrellisScales {
  std::vector<float> inputs;   // [padded K]
  std::vector<float> outputs;  // [transforms, 128], with the other factors of the matrix
};
TrellisScales trellis_scales(const WeightSource& source, const TrellisColumns& columns);

// Returns the bytes of the scales and of the outputs of columns.
constexpr size_t trellis_terms_bytes(int32_t num_in, size_t num_transforms) {
  return (static_cast<size_t>(hadamard_padded(num_in)) + 2 * num_transforms * kHadamardOrder) * sizeof(float);
}

}  // namespace quire::kernels
