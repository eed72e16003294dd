// Products with EXL3 matrices.
#pragma once

#include "kernels/cuda/step/context.h"

namespace quire::kernels {

// Rows of f16 in the order of the input features, or the norm of rows.
struct TrellisInput {
  const __half* rows = nullptr;
  int32_t stride = 0;
  const NormParams* norm = nullptr;  // only if normalizes_rows
};

// Returns true if products normalise their inputs: the kernel of the product a single row, the kernel that
// transforms the inputs several rows.
bool normalizes_rows(const Context& context, const Matrix& matrix, const NormParams& norm);
Status multiply_trellis(Context& context, const Matrix& matrix, const TrellisInput& input, int32_t rows,
                        const Epilogue& epilogue);

}  // namespace quire::kernels
