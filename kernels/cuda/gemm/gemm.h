// y = x W for up to 64 tokens at a time: the arguments that host and kernels share.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Epilogue of a product: the outputs and the activation. Exactly one of the outputs is set.
struct Epilogue {
  __half* output = nullptr;   // [rows, stride]
  float* residual = nullptr;  // added to
  float* output_f32 = nullptr;
  int32_t stride = 0;  // elements between rows of the output
  // Number of blocks of 128 columns if the output of gate and up in broad tiles is stored arranged
  // (arranged.cuh); 0: stored in rows.
  int32_t arranged_blocks = 0;
  int32_t activation = -1;  // an Activation: output[column] = act(gate) * up, only if matrix.paired
};

// What a product with a trellis matrix needs besides (trellis_rows.cuh).
struct TrellisProduct {
  // Elements between the transformed inputs of one part and those of the next. 0: one row of inputs that are
  // not transformed (narrow).
  int64_t part_stride = 0;
  // [rows, columns of all strips], for the sums of the narrow kernel. Its warps meet at the counters, one for
  // each row and transform, before the last one transforms the sums; see kArrival.
  float* sums = nullptr;
};

struct GemmArguments {
  Matrix matrix;
  GemmShape shape;
  // [rows, input_stride], columns in the stored row order of the matrix, followed by zeros up to a multiple
  // of 128.
  const __half* input = nullptr;  // broad: arranged (arranged.cuh)
  int32_t input_stride = 0;
  int32_t rows = 0;
  // If norm.input is set, the input is norm(norm.input), one row, with column c at norm_place[c]; `input` is
  // not read.
  NormParams norm;
  const int32_t* norm_place = nullptr;
  Epilogue epilogue;
  float* partials = nullptr;  // split-K only: [token tiles, half strips, partial sums, ...]
  uint32_t* counters =
      nullptr;  // [token tiles, half strips], multiples of kMaxSplits arrivals: gemm_output.cuh
  TrellisProduct trellis;
};

// Products of rows with the matrices of their experts (MoE). The shape is that of one expert's product. In
// `matrix` only the numbers of rows and of blocks of rows are valid, which all experts share.
struct ExpertArguments : GemmArguments {
  const MatrixRecord* records = nullptr;  // record of expert e is at e * record_stride
  int32_t record_stride = 0;
  int32_t num_experts = 0;
  // [tiles of tokens] expert of each tile, or of each row if there are no tiles; negative: none.
  const int32_t* experts = nullptr;
  // [slots of tiles] row of the output, negative: none. nullptr: there are no tiles.
  const int32_t* rows_of_slots = nullptr;
  // Without tiles: row r reads input row r / rows_per_input, times its scale.
  int32_t rows_per_input = 1;
  const float* input_scale = nullptr;  // [rows] or nullptr
  uint32_t staged_bytes = 0;           // bytes for the unordered row in shared memory; 0: not copied there
};
// Bytes for the record of a thread block's expert. It follows the memory of the shape and is followed by the
// unordered row.
constexpr uint32_t kExpertBytes = (sizeof(MatrixRecord) + 127) / 128 * 128;

cudaError_t launch_gemm_exl2(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_gptq(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_gptq8(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_fp8(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_mxfp4(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_blocks(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_trellis(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_dense(const GemmArguments&, cudaStream_t, bool dependent_launch);

// `tiles` is the number of token tiles. Experts whose matrix is of another kind are skipped.
cudaError_t launch_expert_gemm_exl2(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_gptq(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_gptq8(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_fp8(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_mxfp4(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_blocks(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
// Only single rows and tiles of 8 rows.
cudaError_t launch_expert_gemm_trellis(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);
cudaError_t launch_expert_gemm_dense(const ExpertArguments&, int32_t tiles, cudaStream_t, bool dependent);

// Called once per device, with the device current: raise the shared-memory limits.
cudaError_t setup_expert_gemm_exl2(int shared_limit);
cudaError_t setup_expert_gemm_gptq(int shared_limit);
cudaError_t setup_expert_gemm_gptq8(int shared_limit);
cudaError_t setup_expert_gemm_fp8(int shared_limit);
cudaError_t setup_expert_gemm_mxfp4(int shared_limit);
cudaError_t setup_expert_gemm_blocks(int shared_limit);
cudaError_t setup_expert_gemm_trellis(int shared_limit);
cudaError_t setup_expert_gemm_dense(int shared_limit);
cudaError_t setup_gemm_exl2(int shared_limit);
cudaError_t setup_gemm_gptq(int shared_limit);
cudaError_t setup_gemm_gptq8(int shared_limit);
cudaError_t setup_gemm_fp8(int shared_limit);
cudaError_t setup_gemm_mxfp4(int shared_limit);
cudaError_t setup_gemm_blocks(int shared_limit);
cudaError_t setup_gemm_trellis(int shared_limit);
cudaError_t setup_gemm_dense(int shared_limit);
// Returns the compute capability that the kernels for this card were compiled for, times ten.
cudaError_t gemm_code_version(int* version);

}  // namespace quire::kernels
