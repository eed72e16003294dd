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
  int32_t stride = 0;  // elements between rows of the output
  // Of 128 columns, where the output of a gate and its up in broad tiles lies arranged (arranged.cuh); 0: in
  // rows.
  int32_t arranged_blocks = 0;
  int32_t activation = -1;  // an Activation: output[column] = act(gate) * up, only where matrix.paired
};

struct GemmArguments {
  Matrix matrix;
  GemmShape shape;
  // [rows, input_stride], columns in the stored row order of the matrix, zeros after them up to a multiple
  // of 128.
  const __half* input = nullptr;  // broad: arranged (arranged.cuh)
  int32_t input_stride = 0;
  int32_t rows = 0;
  // Where norm.input is set, the input is norm(norm.input), one row, column c at norm_place[c]; `input` is
  // not read.
  NormParams norm;
  const int32_t* norm_place = nullptr;
  Epilogue epilogue;
  float* partials = nullptr;  // where there are splits: [token tiles, half strips, sums that they leave, ...]
  uint32_t* counters =
      nullptr;  // [token tiles, half strips], multiples of kMostSplits arrivals: gemm_wide.cuh
};

// Products of rows by the matrices of their experts. The shape is that of one expert's product; of `matrix`
// only the number of rows, and blocks of rows, is that of all.
struct ExpertArguments : GemmArguments {
  const MatrixRecord* records = nullptr;  // of expert e at e * record_stride
  int32_t record_stride = 0;
  int32_t num_experts = 0;
  // [tiles of tokens] of each tile, or of each row where the shape takes one: negative: none.
  const int32_t* experts = nullptr;
  const int32_t* rows_of_slots = nullptr;  // [slots] row of the output, negative: none; nullptr: itself
  // Where the shape takes one row: row r reads input row r / rows_per_input, times its scale.
  int32_t rows_per_input = 1;
  const float* input_scale = nullptr;  // [rows] or nullptr
  uint32_t staged_bytes = 0;           // of a row in shared memory, before it is put in order, or 0
};
// Of the record of a thread block's expert, after what the shape says; the staged row comes after it.
constexpr uint32_t kExpertBytes = (sizeof(MatrixRecord) + 127) / 128 * 128;

cudaError_t launch_gemm_exl2(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_gptq(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_gptq8(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_fp8(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_mxfp4(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_dense(const GemmArguments&, cudaStream_t, bool dependent_launch);

// `tiles`: of tokens. Experts whose matrix is of another kind are left alone.
cudaError_t launch_expert_gemm_exl2(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_gptq(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_gptq8(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_fp8(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_mxfp4(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_dense(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);

// Once per device, with the device current: raises the shared-memory limits.
cudaError_t setup_expert_gemm_exl2(int shared_limit);
cudaError_t setup_expert_gemm_gptq(int shared_limit);
cudaError_t setup_expert_gemm_gptq8(int shared_limit);
cudaError_t setup_expert_gemm_fp8(int shared_limit);
cudaError_t setup_expert_gemm_mxfp4(int shared_limit);
cudaError_t setup_expert_gemm_dense(int shared_limit);
cudaError_t setup_gemm_exl2(int shared_limit);
cudaError_t setup_gemm_gptq(int shared_limit);
cudaError_t setup_gemm_gptq8(int shared_limit);
cudaError_t setup_gemm_fp8(int shared_limit);
cudaError_t setup_gemm_mxfp4(int shared_limit);
cudaError_t setup_gemm_dense(int shared_limit);
// Compute capability that the kernels for this card were compiled for, times ten.
cudaError_t gemm_code_version(int* version);

}  // namespace quire::kernels
