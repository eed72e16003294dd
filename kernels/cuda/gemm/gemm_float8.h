// y = x W with both in E4M3 (float8_shape.h): the arguments that host and kernels share.
#pragma once

#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/plan/float8_shape.h"

namespace quire::kernels {

struct Float8Arguments {
  Float8Shape shape;
  const uint8_t* tiles = nullptr;  // [column tiles][blocks of K][kFloat8BlockBytes]
  int32_t column_tiles = 0;
  int32_t num_blocks = 0;
  int32_t num_columns = 0;
  int32_t paired = 0;
  const float* bias = nullptr;      // [num_columns] or nullptr
  const uint8_t* tokens = nullptr;  // Float8Rows::tiles
  int32_t rows = 0;
  Epilogue epilogue;
};
// Launch the kernels for cards with warpgroup products, and for other cards.
cudaError_t launch_gemm_float8(const Float8Arguments&, cudaStream_t, bool dependent);
cudaError_t launch_gemm_float8_strips(const Float8Arguments&, cudaStream_t, bool dependent);

// Called once per device, with the device current. Set `available` to whether the card has such products and
// the kernels are compiled for it.
cudaError_t setup_gemm_float8(int shared_limit, bool* available);
cudaError_t setup_gemm_float8_strips(int shared_limit, bool* available);

}  // namespace quire::kernels
