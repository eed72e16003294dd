// Products with EXL3 matrices.
#pragma once

#include "kernels/cuda/step/context.h"

namespace quire::kernels {

// Rows of f16 in the order of the input features, or the norm of one row.
struct TrellisInput {
  const __half* rows = nullptr;
  int32_t stride = 0;
  const NormParams* norm = nullptr;  // only if normalizes_within
};

// Returns true if the kernel of the product normalises a single row itself.
bool normalizes_within(const Context& context, const Matrix& matrix);
Status multiply_trellis(Context& context, const Matrix& matrix, const TrellisInput& input, int32_t rows,
                        const Epilogue& epilogue);

}  // namespace quire::kernels
