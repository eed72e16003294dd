// y = x W for up to 32 tokens at a time: the arguments that host and kernels share.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/matrix.h"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

struct Device;

// What becomes of the sums. Exactly one of the outputs is set.
struct Epilogue {
  __half* output = nullptr;   // [rows, stride]
  float* residual = nullptr;  // added to
  float* output_f32 = nullptr;
  int32_t stride = 0;       // elements between rows of the output
  int32_t activation = -1;  // an Activation: output[column] = act(gate) * up, only where matrix.paired
};

// How a matrix is dealt out to blocks of 16 warps.
//
// narrow, up to 8 tokens: a block takes a strip, or a gate and its up one after the other, and each of its
// warps one chain of K, so that nothing leaves the block. wide, tiles of 16 or 32 tokens: a block takes
// several strips and a quarter or an eighth of the chains, each of its warps one chain of one strip, so that
// activations in shared memory serve all strips; the blocks that share strips are a cluster.
struct GemmShape {
  int32_t tiles = 1;   // of 8 tokens: 1 is narrow, 2 and 4 are wide
  int32_t chains = 0;  // of a block, a power of two
  int32_t splits = 1;  // blocks that share strips: kNumChains / chains
  int32_t strips = 0;  // of a group: what a block works on at a time
  int32_t groups = 0;
  int32_t group_blocks = 0;  // over which groups are dealt out, times `splits`
  int32_t held = 0;          // tokens whose sums are exchanged at a time
  int32_t ring_slots = 0;    // per warp: 1 or 2
  uint32_t slot_bytes = 0;
  // In shared memory, in bytes.
  uint32_t activations_at = 0;
  uint32_t sums_at = 0;
  uint32_t received_at = 0;  // from the cluster's blocks
  uint32_t rings_at = 0;
  uint32_t shared_bytes = 0;
};

struct GemmArguments {
  Matrix matrix;
  GemmShape shape;
  // [rows, input_stride], columns in the stored row order of the matrix, zeros behind them up to a multiple
  // of 128.
  const __half* input = nullptr;
  int32_t input_stride = 0;
  int32_t rows = 0;
  // Where norm.weight is set, the input is norm(norm.input), one row, column c at norm_place[c]; `input` is
  // not read.
  NormParams norm;
  const int32_t* norm_place = nullptr;
  Epilogue epilogue;
  // Where there are splits but no clusters: [token tiles, groups, splits, tokens of a tile, columns]; all
  // tokens are exchanged at a time then.
  float* partials = nullptr;
  uint32_t* counters = nullptr;  // [token tiles * groups], zero before and after
};

constexpr int kGemmWarps = 16;
constexpr int kGemmThreads = 32 * kGemmWarps;
constexpr int kReceiveBuffers = 4;

// Fixed places in shared memory: barriers of the rings, barriers of the receive buffers, a few floats for a
// norm.
constexpr uint32_t kReceiveBarriersAt = 256;
constexpr uint32_t kNormSumsAt = 320;
constexpr uint32_t kFreeAt = 384;

// The shape for so many rows. Results do not depend on it.
GemmShape gemm_shape(const Device& device, const Matrix& matrix, int32_t rows);

cudaError_t launch_gemm_exl2(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_gptq(const GemmArguments&, cudaStream_t, bool dependent_launch);
cudaError_t launch_gemm_dense(const GemmArguments&, cudaStream_t, bool dependent_launch);

// Once per device, with the device current: raises the shared-memory limits.
cudaError_t setup_gemm_exl2(int shared_limit);
cudaError_t setup_gemm_gptq(int shared_limit);
cudaError_t setup_gemm_dense(int shared_limit);
// Compute capability that the kernels for this card were compiled for, times ten.
cudaError_t gemm_code_version(int* version);
// Clusters of `size` blocks that the card runs at once, at one block per multiprocessor.
cudaError_t gemm_clusters(int size, int shared_limit, int* count);

}  // namespace quire::kernels
