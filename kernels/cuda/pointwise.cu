#include <algorithm>
#include <cuda_bf16.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/ptx.cuh"

namespace quire::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kNormThreads = 512;

unsigned blocks_for(int64_t count, int per_block) {
  return static_cast<unsigned>(std::max<int64_t>(1, (count + per_block - 1) / per_block));
}

__device__ __forceinline__ float table_value(const void* table, DType dtype, size_t at) {
  if (dtype == DType::f16) return __half2float(static_cast<const __half*>(table)[at]);
  if (dtype == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(table)[at]);
  return static_cast<const float*>(table)[at];
}

__global__ void embed_kernel(const void* table, DType dtype, const int32_t* ids, int columns, float scale,
                             float* hidden) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  const size_t from = static_cast<size_t>(ids[row]) * columns;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < columns; c += gridDim.x * blockDim.x)
    hidden[row * columns + c] = table_value(table, dtype, from + c) * scale;
}

// Sum over the block, the same bits for every thread; order fixed by the block's size.
__device__ __forceinline__ float block_sum(float v, float* shared) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffU, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int w = 0; w < kNormThreads / 32; ++w) total += shared[w];
  return total;
}

// One block per row. Up to 16 values per thread stay in registers, wider rows are read again. Weights and
// places do not depend on the predecessor and are fetched before the wait for it.
__global__ void __launch_bounds__(kNormThreads)
    norm_kernel(const __grid_constant__ NormParams p, const int32_t* place) {
  constexpr int kHeld = 4;  // of four columns each
  __shared__ float sums[kNormThreads / 32];
  release_successor();
  const int row = blockIdx.x;
  const int quads =
      p.columns % 4 == 0 ? p.columns / 4 : 0;  // the rest, or all of odd widths, goes one by one
  const int held_quads = min(quads, kHeld * kNormThreads);
  float4 weight[kHeld];
  int4 target[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int q = threadIdx.x + i * kNormThreads;
    if (q >= held_quads) continue;
    weight[i] = __ldg(reinterpret_cast<const float4*>(p.weight) + q);
    target[i] = place != nullptr ? __ldg(reinterpret_cast<const int4*>(place) + q)
                                 : make_int4(4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3);
  }
  wait_for_predecessor();
  const size_t from = static_cast<size_t>(p.row_index != nullptr ? p.row_index[row] : row) * p.columns;
  const float* x = p.input + from;
  float4 held[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int q = threadIdx.x + i * kNormThreads;
    held[i] = q < held_quads ? reinterpret_cast<const float4*>(x)[q] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  float mean = 0.0f;
  if (p.kind == NormKind::layer) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) total += (held[i].x + held[i].y) + (held[i].z + held[i].w);
    for (int c = 4 * held_quads + threadIdx.x; c < p.columns; c += kNormThreads) total += x[c];
    mean = block_sum(total, sums) / static_cast<float>(p.columns);
  }
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (threadIdx.x + i * kNormThreads >= held_quads) continue;
    const float a = held[i].x - mean, b = held[i].y - mean, c = held[i].z - mean, d = held[i].w - mean;
    squares += (a * a + b * b) + (c * c + d * d);
  }
  for (int c = 4 * held_quads + threadIdx.x; c < p.columns; c += kNormThreads)
    squares += (x[c] - mean) * (x[c] - mean);
  const float scale = rsqrtf(block_sum(squares, sums) / static_cast<float>(p.columns) + p.epsilon);
  auto* out = static_cast<__half*>(p.output) + static_cast<size_t>(row) * p.columns;
  auto store = [&](int c, int to, float v, float w) {
    float y = (v - mean) * scale * w;
    if (p.bias != nullptr) y += p.bias[c];
    out[to] = __float2half_rn(y);
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int q = threadIdx.x + i * kNormThreads;
    if (q >= held_quads) continue;
    store(4 * q, target[i].x, held[i].x, weight[i].x);
    store(4 * q + 1, target[i].y, held[i].y, weight[i].y);
    store(4 * q + 2, target[i].z, held[i].z, weight[i].z);
    store(4 * q + 3, target[i].w, held[i].w, weight[i].w);
  }
  for (int c = 4 * held_quads + threadIdx.x; c < p.columns; c += kNormThreads)
    store(c, place != nullptr ? place[c] : c, x[c], p.weight[c]);
}

__global__ void rope_angles_kernel(RopeAnglesParams p) {
  release_successor();
  wait_for_predecessor();
  const int half = p.rotary_dim / 2;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.num_tokens * half) return;
  const float angle = static_cast<float>(p.positions[i / half]) * p.inv_freq[i % half];
  float s, c;
  sincosf(angle, &s, &c);
  p.cos[i] = c * p.magnitude;
  p.sin[i] = s * p.magnitude;
}

__global__ void activation_kernel(ActivationParams p) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  const auto* in = static_cast<const __half*>(p.input) + row * p.columns * (p.gated ? 2 : 1);
  auto* out = static_cast<__half*>(p.output) + row * p.columns;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < p.columns; c += gridDim.x * blockDim.x) {
    float v = activate(static_cast<int32_t>(p.kind), __half2float(in[c]));
    if (p.gated) v *= __half2float(in[p.columns + c]);
    out[c] = __float2half_rn(v);
  }
}

__global__ void scale_logits_kernel(float* logits, int64_t count, float scale, float softcap) {
  release_successor();
  wait_for_predecessor();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float v = logits[i] * scale;
  if (softcap > 0.0f) v = softcap * tanhf(v / softcap);
  logits[i] = v;
}

__global__ void gather_kernel(const __half* source, int source_stride, const int32_t* order, int columns,
                              __half* target, int target_stride) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < target_stride; k += gridDim.x * blockDim.x) {
    const int from = k < columns && order != nullptr ? order[k] : k;
    target[row * target_stride + k] = k < columns ? source[row * source_stride + from] : __float2half(0.0f);
  }
}

__global__ void finish_rows_kernel(const float* source, int source_stride, const float* bias, int columns,
                                   __half* output, float* residual, float* output_f32, int stride) {
  release_successor();
  wait_for_predecessor();
  const size_t row = blockIdx.y;
  for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < columns; c += gridDim.x * blockDim.x) {
    float v = source[row * source_stride + c];
    if (bias != nullptr) v += bias[c];
    const size_t at = row * stride + c;
    if (residual != nullptr) {
      residual[at] += v;
    } else if (output_f32 != nullptr) {
      output_f32[at] = v;
    } else {
      output[at] = __float2half_rn(v);
    }
  }
}

__global__ void add_rows_kernel(const __half* source, int64_t count, float* residual) {
  release_successor();
  wait_for_predecessor();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) residual[i] += __half2float(source[i]);
}

dim3 row_grid(int columns, int rows) {
  return dim3(blocks_for(columns, kThreads * 4), static_cast<unsigned>(rows));
}

}  // namespace

cudaError_t launch_embed(const EmbedParams& p, const void* table, DType dtype, int columns, Launch l) {
  return launch_kernel(embed_kernel, row_grid(columns, p.num_tokens), dim3(kThreads), 0, l.stream,
                       l.dependent, table, dtype, p.token_ids, columns, p.scale, p.hidden);
}

cudaError_t launch_norm(const NormParams& p, const int32_t* place, Launch l) {
  return launch_kernel(norm_kernel, dim3(static_cast<unsigned>(p.rows)), dim3(kNormThreads), 0, l.stream,
                       l.dependent, p, place);
}

cudaError_t launch_rope_angles(const RopeAnglesParams& p, Launch l) {
  return launch_kernel(rope_angles_kernel,
                       dim3(blocks_for(int64_t{p.num_tokens} * (p.rotary_dim / 2), kThreads)), dim3(kThreads),
                       0, l.stream, l.dependent, p);
}

cudaError_t launch_activation(const ActivationParams& p, Launch l) {
  return launch_kernel(activation_kernel, row_grid(p.columns, p.rows), dim3(kThreads), 0, l.stream,
                       l.dependent, p);
}

cudaError_t launch_scale_logits(float* logits, int64_t count, float scale, float softcap, Launch l) {
  return launch_kernel(scale_logits_kernel, dim3(blocks_for(count, kThreads)), dim3(kThreads), 0, l.stream,
                       l.dependent, logits, count, scale, softcap);
}

cudaError_t launch_gather(const __half* source, int source_stride, const int32_t* order, int rows,
                          int columns, __half* target, int target_stride, Launch l) {
  return launch_kernel(gather_kernel, row_grid(target_stride, rows), dim3(kThreads), 0, l.stream, l.dependent,
                       source, source_stride, order, columns, target, target_stride);
}

cudaError_t launch_finish_rows(const float* source, int source_stride, const float* bias, int rows,
                               int columns, __half* output, float* residual, float* output_f32, int stride,
                               Launch l) {
  return launch_kernel(finish_rows_kernel, row_grid(columns, rows), dim3(kThreads), 0, l.stream, l.dependent,
                       source, source_stride, bias, columns, output, residual, output_f32, stride);
}

cudaError_t launch_add_rows(const __half* source, int rows, int columns, float* residual, Launch l) {
  const int64_t count = int64_t{rows} * columns;
  return launch_kernel(add_rows_kernel, dim3(blocks_for(count, kThreads)), dim3(kThreads), 0, l.stream,
                       l.dependent, source, count, residual);
}

}  // namespace quire::kernels
