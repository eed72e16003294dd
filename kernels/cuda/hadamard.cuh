// The transform of quantized cache pages. See docs/formats.md, "KV cache".
#pragma once

namespace quire::kernels {

// 32-point Walsh-Hadamard transforms over the even and over the odd elements of each block of 64, unscaled,
// natural order. `row` is in shared memory, `dim` a multiple of 64; `count` threads, this one `thread`, take
// part and barrier() joins them after each round.
template <typename Barrier>
__device__ __forceinline__ void hadamard_32(float* row, int dim, int thread, int count, Barrier barrier) {
#pragma unroll 1
  for (int span = 1; span < 32; span <<= 1) {
    for (int i = thread; i < dim / 2; i += count) {
      // Butterfly i & 15 of parity (i / 16) & 1 of block i / 32.
      const int b = i & 15;
      const int low = ((b & ~(span - 1)) << 1) | (b & (span - 1));
      float* base = row + (i >> 5) * 64 + ((i >> 4) & 1);
      const float x = base[2 * low], y = base[2 * (low + span)];
      base[2 * low] = x + y;
      base[2 * (low + span)] = x - y;
    }
    barrier();
  }
}

// The same by one warp, out of line: it is long, and used in several places of a kernel.
__device__ __noinline__ inline void hadamard_warp(float* row, int dim, int lane) {
  hadamard_32(row, dim, lane, 32, [] { __syncwarp(); });
}

}  // namespace quire::kernels
