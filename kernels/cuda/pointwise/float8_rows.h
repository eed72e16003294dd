// Rows of activations on their way into products of E4M3: float8_shape.h.
#pragma once

#include "kernels/cuda/plan/float8_shape.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {

// Where rows lie as tiles of codes.
struct Float8Rows {
  int32_t rows = 0;
  int32_t columns = 0;       // zeros after them up to whole blocks
  int32_t octets = 1;        // of a tile
  int32_t token_tiles = 1;   // tokens that are not there are zeros
  uint8_t* tiles = nullptr;  // [blocks of K][token_tiles][float8_token_bytes(octets)]

  int32_t padded_rows() const { return token_tiles * octets * kFloat8Octet; }
};

// Code = E4M3(x * (448 / largest of the block)), nearest, and scale = largest / 448, of rows of f16.
cudaError_t launch_round_float8(const __half* source, int32_t stride, const Float8Rows& rows, Launch launch);
// The same of norm(input), each number rounded to f16 first. Of the parameters no outputs count. False where
// a row has too many columns for a block.
bool norm_float8_fits(const NormParams& params);
cudaError_t launch_norm_float8(const NormParams& params, const Float8Rows& rows, Launch launch);

cudaError_t setup_float8_rows();

}  // namespace quire::kernels
