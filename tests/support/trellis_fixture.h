// Matrices of EXL3 with random tiles, and their values by the formula of docs/formats.md, bit for bit and sum
// for sum, without any code under test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/interface/weight_source.h"
#include "tests/support/quantized_fixture.h"
#include "tests/support/safetensors_builder.h"

namespace quire::testing {

// Codebook and twice the bits of a weight.
struct TrellisKind {
  kernels::TrellisCodebook codebook = kernels::TrellisCodebook::mul1;
  int32_t half_bits = 8;
};
// Returns all kinds that files may have.
std::vector<TrellisKind> all_trellis_kinds();
std::string name_of(const TrellisKind& kind);

// Owns a matrix. source() points into the object it is called on.
struct TrellisFixture {
  TrellisKind kind;
  int32_t num_in = 0;
  int32_t num_out = 0;
  std::vector<uint16_t> tiles;
  std::vector<uint16_t> input_scales;   // f16, for the padded inputs
  std::vector<uint16_t> output_scales;  // f16, for the padded outputs
  std::vector<int32_t> column_order;    // empty: none
  std::vector<float> bias;              // empty: none
  float prescale = 1.0f;

  kernels::WeightSource source() const;
  int32_t padded_in() const { return kernels::hadamard_padded(num_in); }
  int32_t padded_out() const { return kernels::hadamard_padded(num_out); }
};

// Makes random tiles, and scales with which the matrix has about unit gain.
TrellisFixture make_trellis(const TrellisKind& kind, int32_t num_in, int32_t num_out, uint64_t seed);

// Appends the tensors of the layer `key` as in a model file.
void add_trellis(SafetensorsBuilder& file, const std::string& key, const TrellisFixture& matrix);

// Returns the values of the tiles, [padded inputs, padded outputs].
std::vector<float> trellis_tiles(const kernels::WeightSource& source);

// Returns the matrix [num_in, num_out] with transforms, scales, prescale and column order, in double
// precision.
std::vector<double> trellis_matrix(const kernels::WeightSource& source);

}  // namespace quire::testing
