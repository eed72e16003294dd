// Sum over a row whose elements are held by the threads of a block.
#pragma once

#include <cuda_runtime.h>

namespace quire::kernels {

// Returns the sum, the same bits in every thread. `shared` holds a float per warp and may be used again at
// once.
__device__ __forceinline__ float row_sum(float v, float* shared) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffU, v, d);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) total += shared[w];
  return total;
}

}  // namespace quire::kernels
