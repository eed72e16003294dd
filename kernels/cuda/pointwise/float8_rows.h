// Activations rounded to E4M3 for products in float8_shape.h.
#pragma once

#include "kernels/cuda/plan/float8_shape.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {

// Rows stored as tiles of codes.
struct Float8Rows {
  int32_t rows = 0;
  int32_t columns = 0;       // followed by zeros up to whole blocks
  int32_t octets = 1;        // octets of a tile
  int32_t token_tiles = 1;   // tokens that do not exist are zeros
  uint8_t* tiles = nullptr;  // [blocks of K][token_tiles][float8_token_bytes(octets)]

  int32_t padded_rows() const { return token_tiles * octets * kFloat8Octet; }
};

// Rounds rows of f16: code = E4M3(x * (448 / largest of the block)), to nearest, and scale = largest / 448.
cudaError_t launch_round_float8(const __half* source, int32_t stride, const Float8Rows& rows, Launch launch);
// Does the same for norm(input), with each element rounded to f16 first; the outputs in the parameters are
// ignored. norm_float8_fits returns false if a row has too many columns for a block.
bool norm_float8_fits(const NormParams& params);
cudaError_t launch_norm_float8(const NormParams& params, const Float8Rows& rows, Launch launch);

cudaError_t setup_float8_rows();

}  // namespace quire::kernels
