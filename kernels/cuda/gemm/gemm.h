// y = x W for up to 64 tokens at a time: the arguments that host and kernels share.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/interface/op_params.h"

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
  GemmShape shape;
  // [rows, input_stride], columns in the stored row order of the matrix, zeros behind them up to a multiple
  // of 128.
  const __half* input = nullptr;  // broad: arranged (pointwise.h)
  int32_t input_stride = 0;
  int32_t rows = 0;
  // Where norm.weight is set, the input is norm(norm.input), one row, column c at norm_place[c]; `input` is
  // not read.
  NormParams norm;
  const int32_t* norm_place = nullptr;
  Epilogue epilogue;
  float* partials = nullptr;  // where there are splits: [token tiles, half strips, splits, ...]
  uint32_t* counters =
      nullptr;  // [token tiles, half strips], multiples of kMostSplits arrivals: gemm_wide.cuh
};

cudaError_t launch_gemm_exl2(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_gptq(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_fp8(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_dense(const GemmArguments&, cudaStream_t, bool dependent_launch);

// Once per device, with the device current: raises the shared-memory limits.
cudaError_t setup_gemm_exl2(int shared_limit);
cudaError_t setup_gemm_gptq(int shared_limit);
cudaError_t setup_gemm_fp8(int shared_limit);
cudaError_t setup_gemm_dense(int shared_limit);
// Compute capability that the kernels for this card were compiled for, times ten.
cudaError_t gemm_code_version(int* version);

}  // namespace quire::kernels
