// Small operations on rows of f32, for what few families have: a block a row.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;

// Sum over the block, the same bits for every thread.
__device__ __forceinline__ float block_sum(float v, float* shared) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffU, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) total += shared[w];
  return total;
}

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

__device__ __forceinline__ float root_mean_square(const float* x, int columns, float* shared) {
  float squares = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kThreads) squares = __fmaf_rn(x[c], x[c], squares);
  return sqrtf(block_sum(squares, shared) / static_cast<float>(columns));
}

__global__ void __launch_bounds__(kThreads) row_op_kernel(const __grid_constant__ RowOpParams p) {
  __shared__ float sums[kThreads / 32];
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.x;
  float* target = p.target + row * (p.target_stride != 0 ? p.target_stride : p.columns);
  const float* a = p.a + row * (p.a_stride != 0 ? p.a_stride : p.columns);
  const float b = p.b != nullptr ? p.b[row * (p.b_stride != 0 ? p.b_stride : 1)] : 0.0f;
  const auto each = [&](auto function) {
    for (int c = threadIdx.x; c < p.columns; c += kThreads) target[c] = function(c, target[c]);
  };
  switch (p.op) {
    case RowOp::scale:
      return each([&](int, float x) { return x * p.factor; });
    case RowOp::add:
      return each([&](int c, float x) { return x + a[c] * p.factor; });
    case RowOp::multiply:
      return each([&](int c, float x) { return x * a[c]; });
    case RowOp::gate:
      return each([&](int c, float x) { return x + a[c] * sigmoid(b); });
    case RowOp::add_by_row:
      return each([&](int c, float x) { return x + a[c] * b; });
    case RowOp::add_columns:
      return each([&](int c, float x) { return x + p.a[c]; });
    case RowOp::sigmoid_multiply:
      return each([&](int c, float x) { return x * sigmoid(a[c]); });
    case RowOp::scale_columns:
      return each([&](int c, float x) { return x * p.a[c]; });
    case RowOp::match_size: {
      const float of_target = fmaxf(root_mean_square(target, p.columns, sums), p.factor);
      const float factor = root_mean_square(a, p.columns, sums) / of_target;
      return each([&](int, float x) { return x * factor; });
    }
    case RowOp::tanh_rows:
      return each([&](int, float x) { return tanhf(x * p.factor); });
    case RowOp::differ:
      return each([&](int c, float) { return a[c] - p.factor * a[p.columns + c]; });
    case RowOp::copy:
      return each([&](int c, float) { return a[c] * p.factor; });
  }
}

}  // namespace

cudaError_t launch_row_op(const RowOpParams& p, Launch l) {
  return launch_kernel(row_op_kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kThreads), 0, l.stream,
                       l.dependent, p);
}

cudaError_t setup_rows() {
  return load_kernels(row_op_kernel);
}

}  // namespace quire::kernels
