// y = x W for up to 64 tokens at a time: the arguments that host and kernels share.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/matrix.h"

namespace quire::kernels {

// What becomes of the sums. Exactly one of the outputs is set.
struct Epilogue {
  __half* output = nullptr;   // [rows, stride]
  float* residual = nullptr;  // added to
  float* output_f32 = nullptr;
  int32_t stride = 0;       // elements between rows of the output
  int32_t activation = -1;  // an Activation: output[column] = act(gate) * up, only where matrix.paired
};

struct GemmArguments {
  Matrix matrix;
  const __half* input = nullptr;  // [rows, input_stride], columns in the stored row order of the matrix
  int32_t input_stride = 0;       // a multiple of 8
  int32_t rows = 0;
  Epilogue epilogue;
  float* partials = nullptr;     // [token tiles, units, splits, 64, tokens per tile]
  uint32_t* counters = nullptr;  // [token tiles * units], zero before and after
};

// Tokens per tile: 8, 16, 32 or 64.
using GemmLauncher = cudaError_t (*)(const GemmArguments& arguments, int tokens_per_tile, cudaStream_t stream,
                                     bool dependent_launch);

cudaError_t launch_gemm_exl2(const GemmArguments&, int tokens_per_tile, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_exl2_wide(const GemmArguments&, int tokens_per_tile, cudaStream_t,
                                  bool dependent_launch);
cudaError_t launch_gemm_gptq(const GemmArguments&, int tokens_per_tile, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_dense(const GemmArguments&, int tokens_per_tile, cudaStream_t, bool dependent_launch);

}  // namespace quire::kernels
