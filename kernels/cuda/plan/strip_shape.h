// Shapes of wide tiles on cards without warpgroup products (gemm_strips.cuh). Independent of CUDA.
#pragma once

#include "kernels/cuda/plan/gemm_shape.h"

namespace quire::kernels {

// Chooses strips, slots and splits for `token_tiles` tiles of `tiles` * 8 tokens. Returns the cost in
// nanoseconds of an H200, or kDoesNotFit if no shape fits the card.
int64_t strip_shape(const CardLimits& card, const Matrix& matrix, int32_t tiles, int32_t token_tiles,
                    bool may_split, GemmShape& shape);

}  // namespace quire::kernels
