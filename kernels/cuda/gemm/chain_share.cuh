// Share of a warp of the narrow kernel in the sums of a strip.
#pragma once

#include "kernels/cuda/gemm/gemm_segment.cuh"

namespace quire::kernels {

// Bytes of a segment in a row of activations.
template <TileKind kKind>
constexpr int kRowSegmentBytes = (kKind == TileKind::dense ? kStepRows : kBlockRows) * 2;

// A warp's share of a chain: the chain's segments [first, end), and the warps that work on the chain.
struct ChainShare {
  int chain;
  int first;
  int end;
  int slot;
  int warps;  // 1 or 2

  // Synchronizes these warps.
  __device__ __forceinline__ void meet() const {
    if (warps == 1) {
      __syncwarp();
    } else {
      named_barrier(1 + chain, 64);  // 0 is the barrier of the whole block
    }
  }
};

// Copies a chain's part of a row to shared memory, by its warps.
__device__ __forceinline__ void copy_row(const __half* row, uint8_t* activations, int begin, int end,
                                         const ChainShare& share, int lane) {
  const auto* from = reinterpret_cast<const uint8_t*>(row);
#pragma unroll 1
  for (int i = begin + (32 * share.slot + lane) * 16; i < end; i += 512 * share.warps)
    copy_async_16(shared_address(activations) + i, from + i);
}

}  // namespace quire::kernels
