// Products with matrices of EXL3, and their values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/weight.h"

namespace quire::kernels {

struct Context;

struct TrellisMatrixProduct {
  const WeightPart& part;
  int32_t num_in;
  const float* input;  // rows of num_in floats
  int32_t rows;
  float* output;  // first row, first output of the part
  size_t stride;  // floats from row to row of the output
  bool accumulate;
};
void multiply_trellis(Context* context, const TrellisMatrixProduct& product);

// Writes the values of the outputs that read a panel: [num_in] rows of `row_floats`, the first output of the
// part at `target`.
void dequantize_trellis(const WeightPart& part, int32_t num_in, size_t panel, float* target,
                        size_t row_floats);

}  // namespace quire::kernels
