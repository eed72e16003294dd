// Matrices of random blocks, as in a GGUF file.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/interface/weight_source.h"
#include "tests/support/quantized_fixture.h"

namespace quire::testing {

// Owns a matrix of blocks. source() points into the object it is called on.
struct BlockFixture {
  kernels::BlockType type = kernels::BlockType::none;
  int32_t num_in = 0;
  int32_t num_out = 0;
  std::vector<uint8_t> rows;
  std::vector<int32_t> column_order;  // empty: none
  std::vector<float> bias;            // empty: none
  float prescale = 1.0f;

  kernels::WeightSource source() const;
  size_t row_bytes() const { return kernels::block_row_bytes(type, num_in); }
  // Returns the values of all rows, [num_out, num_in].
  std::vector<float> values() const;
};

// All block types.
std::vector<kernels::BlockType> all_block_types();

// Makes random blocks with scales of moderate size.
BlockFixture make_blocks(kernels::BlockType type, int32_t num_in, int32_t num_out, uint64_t seed);

// Replaces the scale of a block by an f16, or an E8M0 code by its low byte. NVFP4 has no scale that is not
// finite.
void set_block_scale(kernels::BlockType type, uint8_t* block, uint16_t half);

}  // namespace quire::testing
