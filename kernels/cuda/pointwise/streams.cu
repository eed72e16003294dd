// Hyper-connections: several residual streams around a block. One block of threads for each token.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/pointwise/pointwise.h"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kMost = kMostConnectedStreams;
constexpr unsigned kAll = 0xffffffffU;

__device__ __forceinline__ float sigmoid_of(float x) {
  return __fdiv_rn(1.0f, __fadd_rn(1.0f, expf(-x)));
}

// One row of C in each of the first n lanes of a warp; the other lanes hold zeros.
struct MixingRow {
  float at[kMost];
  int n;
  float epsilon;

  // Divides the row by its sum.
  __device__ __forceinline__ void divide(float added) {
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum = __fadd_rn(sum, at[j]);
    for (int j = 0; j < n; ++j) at[j] = __fdiv_rn(at[j], __fadd_rn(sum, added));
  }
  // Divides each column by its sum over the rows.
  __device__ __forceinline__ void divide_columns() {
    for (int j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (int i = 0; i < n; ++i) sum = __fadd_rn(sum, __shfl_sync(kAll, at[j], i));
      at[j] = __fdiv_rn(at[j], __fadd_rn(sum, epsilon));
    }
  }
  __device__ __forceinline__ void soften() {
    float most = at[0];
    for (int j = 1; j < n; ++j) most = fmaxf(most, at[j]);
    for (int j = 0; j < n; ++j) at[j] = expf(__fsub_rn(at[j], most));
    divide(0.0f);
    for (int j = 0; j < n; ++j) at[j] = __fadd_rn(at[j], epsilon);
  }
};

// Computes a token's coefficients by one warp, lane i those of stream i.
__device__ __forceinline__ void make_coefficients(const CollapseStreamsParams& p, int token, float* pre) {
  const int lane = threadIdx.x, n = p.num_streams;
  const float* const products = p.products + static_cast<size_t>(token) * connection_products(p);
  float* const post = p.coefficients + static_cast<size_t>(token) * connection_coefficients(p);
  const int own = lane < n ? lane : 0;  // all lanes take part in shuffles
  const auto scaled = [&](int section, int at) {
    return __fmaf_rn(products[at], p.scale[section], p.base[at]);
  };
  MixingRow row;
  row.n = n;
  row.epsilon = p.epsilon;
  for (int j = 0; j < n; ++j) row.at[j] = scaled(2, 2 * n + own * n + j);
  row.soften();
  row.divide_columns();
  for (int i = 1; i < p.iterations; ++i) {
    row.divide(p.epsilon);
    row.divide_columns();
  }
  if (lane >= n) return;
  pre[lane] = __fadd_rn(sigmoid_of(scaled(0, lane)), p.epsilon);
  post[lane] = __fmul_rn(2.0f, sigmoid_of(scaled(1, n + lane)));
  for (int j = 0; j < n; ++j) post[n + lane * n + j] = row.at[j];
}

__global__ void __launch_bounds__(kThreads)
    collapse_streams_kernel(const __grid_constant__ CollapseStreamsParams p) {
  __shared__ float pre[kMost];
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x;
  if (threadIdx.x < 32) make_coefficients(p, token, pre);
  __syncthreads();
  const float* const streams = p.streams + static_cast<size_t>(token) * p.num_streams * p.columns;
  float* const x = p.x + static_cast<size_t>(token) * p.columns;
  for (int c = threadIdx.x; c < p.columns; c += kThreads) {
    float sum = 0.0f;
    for (int i = 0; i < p.num_streams; ++i)
      sum = __fmaf_rn(pre[i], streams[static_cast<size_t>(i) * p.columns + c], sum);
    x[c] = sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    expand_streams_kernel(const __grid_constant__ ExpandStreamsParams p) {
  __shared__ float coefficients[(kMost + 1) * kMost];
  release_successor();
  wait_for_predecessor();
  const int token = blockIdx.x, n = p.num_streams, count = connection_coefficients(p);
  for (int i = threadIdx.x; i < count; i += kThreads)
    coefficients[i] = p.coefficients[static_cast<size_t>(token) * count + i];
  __syncthreads();
  float* const streams = p.streams + static_cast<size_t>(token) * n * p.columns;
  for (int c = threadIdx.x; c < p.columns; c += kThreads) {
    const float result = p.result[static_cast<size_t>(token) * p.columns + c];
    float own[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) own[i] = i < n ? streams[static_cast<size_t>(i) * p.columns + c] : 0.0f;
    for (int j = 0; j < n; ++j) {
      float sum = __fmul_rn(coefficients[j], result);
#pragma unroll
      for (int i = 0; i < kMost; ++i)
        if (i < n) sum = __fmaf_rn(coefficients[n + i * n + j], own[i], sum);
      streams[static_cast<size_t>(j) * p.columns + c] = sum;
    }
  }
}

}  // namespace

cudaError_t launch_collapse_streams(const CollapseStreamsParams& p, Launch l) {
  return launch_kernel(collapse_streams_kernel, dim3(static_cast<unsigned>(p.tokens)), dim3(kThreads), 0,
                       l.stream, l.dependent, p);
}

cudaError_t launch_expand_streams(const ExpandStreamsParams& p, Launch l) {
  return launch_kernel(expand_streams_kernel, dim3(static_cast<unsigned>(p.tokens)), dim3(kThreads), 0,
                       l.stream, l.dependent, p);
}

cudaError_t setup_streams() {
  return load_kernels(collapse_streams_kernel, expand_streams_kernel);
}

}  // namespace quire::kernels
