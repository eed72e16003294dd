// Hadamard transform of quantized KV cache pages. See docs/formats.md, "KV cache".
#pragma once

namespace quire::kernels {

// Computes 32-point Walsh-Hadamard transforms over the even and over the odd elements of blocks of 64,
// unscaled, natural order: lane l of a warp has elements 2l and 2l + 1 of each block.
template <int kBlocks>
__device__ __forceinline__ void hadamard_pairs(float2 (&pairs)[kBlocks], int lane) {
#pragma unroll
  for (int span = 1; span < 32; span <<= 1) {
    const float sign = (lane & span) == 0 ? 1.0f : -1.0f;
#pragma unroll
    for (float2& v : pairs) {
      v.x = __fmaf_rn(v.x, sign, __shfl_xor_sync(0xffffffffU, v.x, span));
      v.y = __fmaf_rn(v.y, sign, __shfl_xor_sync(0xffffffffU, v.y, span));
    }
  }
}

// Does the same for `row` in shared memory, with `dim` a multiple of 64, by one warp. Not inlined, because
// kernels use it in several places.
__device__ __noinline__ inline void hadamard_warp(float* row, int dim, int lane) {
  auto* pairs = reinterpret_cast<float2*>(row) + lane;
#pragma unroll 1
  for (int block = 0; block < dim / 64; block += 2) {
    const bool two = block + 1 < dim / 64;
    float2 v[2] = {pairs[block * 32], two ? pairs[block * 32 + 32] : make_float2(0.0f, 0.0f)};
    hadamard_pairs(v, lane);
    pairs[block * 32] = v[0];
    if (two) pairs[block * 32 + 32] = v[1];
  }
  __syncwarp();
}

}  // namespace quire::kernels
