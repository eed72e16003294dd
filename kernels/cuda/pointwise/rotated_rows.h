// Kernels of their own for the Hadamard transforms before and after a product with an EXL3 matrix
// (docs/adr/0069). The narrow kernel of the product transforms its outputs itself, and the inputs of one row.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {

// Rows to be transformed for each part of a matrix.
struct RotatedInputs {
  const __half* source = nullptr;
  int32_t source_stride = 0;
  int32_t rows = 0;
  int32_t columns = 0;  // inputs from here on are 0
  int32_t num_blocks = 0;
  int32_t num_parts = 0;
  const float* scales[kMaxParts] = {};
  __half* target = nullptr;  // in stored row order, one part after the other
  int64_t part_stride = 0;   // elements
  bool arranged = false;     // arranged.cuh; otherwise rows of whole blocks
};
cudaError_t launch_rotate_inputs(const RotatedInputs& inputs, Launch launch);
// Transforms norm(norm.input) instead of source, with as many rows as `inputs` has. Row r is normalised like
// row r of `norm`. Only if a row of so many blocks fits.
cudaError_t launch_norm_rotated(const NormParams& norm, const RotatedInputs& inputs, Launch launch);
bool norm_rotated_fits(int32_t num_blocks);

// Sums of the strips of a part, as wide and broad tiles store them: [token tiles, half strips, partial sums,
// tiles of 8 tokens, lanes, 4]. Lane 4g + t has columns g and g + 8 of a half strip, each for tokens 2t and
// 2t + 1. The partial sums of a half strip are added in order.
struct PartSums {
  const float* sums = nullptr;
  int32_t num_strips = 0;   // of the product
  int32_t first_strip = 0;  // of the part
  int32_t tiles = 0;
  int32_t num_partial_sums = 0;
};

// Sums of all parts of a matrix, and the epilogue of its product.
struct RotatedOutputs {
  Matrix matrix;
  Epilogue epilogue;
  PartSums parts[kMaxParts];
  int32_t rows = 0;
};
cudaError_t launch_rotate_outputs(const RotatedOutputs& outputs, Launch launch);

// Called once per device, with the device current: loads the kernels onto the card.
cudaError_t setup_rotated_rows();

}  // namespace quire::kernels
