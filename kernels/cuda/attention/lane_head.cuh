// A head of a token in the registers of one warp, before it goes to attention or to the KV cache: for heads
// of 64 or 128 dimensions that are rotated completely as two halves, or not at all. Results are bit-identical
// to those of load_head (kv_row.cuh), which handles any head. Several heads can be loaded at once.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/attention/kv_row.cuh"

namespace quire::kernels {

// True if LaneHead handles the heads of these layers.
inline bool lanes_fit(const AttentionSpec& spec) {
  const int dim = spec.heads.head_dim;
  const bool halves = spec.rope == RopeStyle::none || spec.rotary_dim == 0 ||
                      (spec.rope == RopeStyle::neox_halves && spec.rotary_dim == dim);
  return halves && (dim == 64 || dim == 128);
}

// Cosines and sines of a token for the elements of a lane.
template <int kElements>
struct LaneAngles {
  float cosine[kElements / 2];
  float sine[kElements / 2];

  __device__ __forceinline__ void load(const AppendKvParams& p, int token, int lane) {
    const size_t row = static_cast<size_t>(token) * (16 * kElements) + lane;
#pragma unroll
    for (int k = 0; k < kElements / 2; ++k) {
      cosine[k] = p.cos[row + 32 * k];
      sine[k] = p.sin[row + 32 * k];
    }
  }
};

// Part of a head held by one lane: elements lane, lane + 32 and so on.
template <int kElements>
struct LaneHead {
  float v[kElements];

  __device__ __forceinline__ void normalise(const float* weight, float epsilon, int lane) {
    float squares = 0.0f;
#pragma unroll
    for (const float x : v) squares = __fmaf_rn(x, x, squares);
#pragma unroll
    for (int s = 16; s > 0; s >>= 1) squares += __shfl_xor_sync(0xffffffffU, squares, s);
    const float scale = rsqrtf(__fadd_rn(__fdiv_rn(squares, 32.0f * kElements), epsilon));
#pragma unroll
    for (int k = 0; k < kElements; ++k)
      v[k] = __fmul_rn(__fmul_rn(v[k], scale), weight != nullptr ? weight[lane + 32 * k] : 1.0f);
  }
  // Rotates the first half of the dimensions against the second half.
  __device__ __forceinline__ void rotate(const LaneAngles<kElements>& angles) {
#pragma unroll
    for (int k = 0; k < kElements / 2; ++k) {
      const float x = v[k], y = v[k + kElements / 2];
      v[k] = __fmaf_rn(x, angles.cosine[k], -__fmul_rn(y, angles.sine[k]));
      v[k + kElements / 2] = __fmaf_rn(y, angles.cosine[k], __fmul_rn(x, angles.sine[k]));
    }
  }
  // `row` is shared memory of this warp for one head.
  __device__ __forceinline__ void store(const PageRow& to, KvFormat format, float* row, int lane) const {
    if (format == KvFormat::f16) {
#pragma unroll
      for (int k = 0; k < kElements; ++k) to.put_half(lane + 32 * k, __float2half_rn(v[k]));
      return;
    }
#pragma unroll
    for (int k = 0; k < kElements; ++k) row[lane + 32 * k] = v[k];
    __syncwarp();
    store_row(row, 32 * kElements, format, lane, to);
    __syncwarp();
  }
};

}  // namespace quire::kernels
