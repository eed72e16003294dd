// One head of one token on its way into attention or the cache, in shared memory as floats: per-head norm,
// rotary embedding, and the row as a page holds it. By one warp; the same bits wherever it runs.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/hadamard.cuh"
#include "kernels/interface/op_params.h"

namespace quire::kernels {

// Cosines and sines of a lane's pairs, fetched before the row they turn is there.
struct HeadAngles {
  static constexpr int kMost = 4;  // pairs of a lane: heads have up to 256 dimensions
  float cosine[kMost];
  float sine[kMost];

  __device__ __forceinline__ void fetch(const AppendKvParams& p, int token, int lane) {
    const int half = p.rotary_dim / 2;
    const size_t row = static_cast<size_t>(token) * half;
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const int i = lane + 32 * k;
      cosine[k] = i < half ? p.cos[row + i] : 1.0f;
      sine[k] = i < half ? p.sin[row + i] : 0.0f;
    }
  }
  __device__ __forceinline__ void rotate(const AppendKvParams& p, float* row, int lane) const {
    const int half = p.rotary_dim / 2;
#pragma unroll
    for (int k = 0; k < kMost; ++k) {
      const int i = lane + 32 * k;
      if (i >= half) break;
      const int a = p.rope == RopeStyle::neox_halves ? i : 2 * i;
      const int b = p.rope == RopeStyle::neox_halves ? i + half : 2 * i + 1;
      const float x = row[a], y = row[b];
      row[a] = __fmaf_rn(x, cosine[k], -__fmul_rn(y, sine[k]));
      row[b] = __fmaf_rn(y, cosine[k], __fmul_rn(x, sine[k]));
    }
    __syncwarp();
  }
};

__device__ __forceinline__ void normalise_head(float* row, const float* weight, float epsilon, int dim,
                                               int lane) {
  float squares = 0.0f;
  for (int d = lane; d < dim; d += 32) squares = __fmaf_rn(row[d], row[d], squares);
#pragma unroll
  for (int s = 16; s > 0; s >>= 1) squares += __shfl_xor_sync(0xffffffffU, squares, s);
  const float scale = rsqrtf(__fadd_rn(__fdiv_rn(squares, static_cast<float>(dim)), epsilon));
  for (int d = lane; d < dim; d += 32) row[d] = __fmul_rn(__fmul_rn(row[d], scale), weight[d]);
  __syncwarp();
}

// A head of the step's qkv as attention and the cache want it.
__device__ __forceinline__ void load_head(const AppendKvParams& p, int token, int head, float* row,
                                          int lane) {
  const int dim = p.heads.head_dim, heads = p.heads.num_heads + 2 * p.heads.num_kv_heads;
  const bool turns =
      p.rope != RopeStyle::none && p.rotary_dim > 0 && head < p.heads.num_heads + p.heads.num_kv_heads;
  HeadAngles angles;
  if (turns) angles.fetch(p, token, lane);
  const auto* from = static_cast<const __half*>(p.qkv) + (static_cast<size_t>(token) * heads + head) * dim;
  for (int d = lane; d < dim; d += 32) row[d] = __half2float(from[d]);
  __syncwarp();
  const float* weight = head < p.heads.num_heads                          ? p.q_norm
                        : head < p.heads.num_heads + p.heads.num_kv_heads ? p.k_norm
                                                                          : nullptr;
  if (weight != nullptr) normalise_head(row, weight, p.norm_epsilon, dim, lane);
  if (turns) angles.rotate(p, row, lane);
}

// Writes a row, number `at` of the pages; quantized formats leave the transformed row behind.
__device__ __forceinline__ void store_row(float* row, int dim, KvFormat format, void* data, void* scales,
                                          size_t at, int lane) {
  if (format == KvFormat::f16) {
    auto* out = static_cast<__half*>(data) + at * dim;
    for (int d = lane; d < dim; d += 32) out[d] = __float2half_rn(row[d]);
    return;
  }
  if (format == KvFormat::fp8) {
    auto* out = static_cast<uint8_t*>(data) + at * dim;
    for (int d = lane; d < dim; d += 32)
      out[d] = static_cast<uint8_t>(__half_as_ushort(__float2half_rn(row[d])) >> 8);
    return;
  }
  // What quantized pages see is the f16 value, as the others do.
  for (int d = lane; d < dim; d += 32) row[d] = __half2float(__float2half_rn(row[d]));
  __syncwarp();
  hadamard_warp(row, dim, lane);
  const float zero = format == KvFormat::q8 ? 128.0f : 8.0f;
  for (int block = 0; block < dim / 32; ++block) {
    const float w = row[block * 32 + lane];
    float largest = fabsf(w);
#pragma unroll
    for (int s = 16; s > 0; s >>= 1) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffU, largest, s));
    float code = zero;
    if (largest > 0.0f) {
      const float ratio = __half2float(__float2half_rn(w / largest));
      code = fminf(fmaxf(rintf(ratio * zero + zero), 0.0f), 2.0f * zero - 1.0f);
    }
    if (lane == 0) static_cast<__half*>(scales)[at * (dim / 32) + block] = __float2half_rn(largest / zero);
    const auto value = static_cast<uint32_t>(code);
    if (format == KvFormat::q8) {
      static_cast<uint8_t*>(data)[at * dim + block * 32 + lane] = static_cast<uint8_t>(value);
    } else {
      const uint32_t upper = __shfl_down_sync(0xffffffffU, value, 1);
      if ((lane & 1) == 0)
        static_cast<uint8_t*>(data)[at * (dim / 2) + block * 16 + lane / 2] =
            static_cast<uint8_t>(value | upper << 4);
    }
  }
}

}  // namespace quire::kernels
