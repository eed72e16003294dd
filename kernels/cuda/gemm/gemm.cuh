// Launches of the matrix kernels. GemmShape (gemm_shape.h) describes how the work is split, matrix.h the
// layout and the order of sums.
#pragma once

#include "kernels/cuda/gemm/gemm_broad.cuh"
#include "kernels/cuda/gemm/gemm_narrow.cuh"
#include "kernels/cuda/gemm/gemm_wide.cuh"

namespace quire::kernels {

template <TileKind kKind>
cudaError_t launch_gemm_broad(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  const GemmShape& s = a.shape;
  const dim3 grid(static_cast<unsigned>((a.rows + kMaxTileTokens - 1) / kMaxTileTokens),
                  static_cast<unsigned>(2 * s.blocks));
  return launch_pairs(gemm_broad_kernel<kKind>, grid, dim3(kBroadThreads), s.shared_bytes, stream, dependent,
                      a);
}

template <TileKind kKind>
cudaError_t launch_gemm(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  const GemmShape& s = a.shape;
  if (s.is_broad()) return launch_gemm_broad<kKind>(a, stream, dependent);
  const int tokens = s.tiles * 8;
  const dim3 grid(static_cast<unsigned>((a.rows + tokens - 1) / tokens), static_cast<unsigned>(s.blocks));
  const auto kernel = s.few_strips   ? gemm_few_strips_kernel<kKind>
                      : s.tiles == 8 ? gemm_wide_kernel<kKind, 8>
                      : s.tiles == 4 ? gemm_wide_kernel<kKind, 4>
                      : s.tiles == 2 ? gemm_wide_kernel<kKind, 2>
                      : a.rows == 1  ? gemm_narrow_kernel<kKind, true>
                                     : gemm_narrow_kernel<kKind, false>;
  return launch_kernel(kernel, grid, dim3(static_cast<unsigned>(s.threads)), s.shared_bytes, stream,
                       dependent, a);
}

template <TileKind kKind>
cudaError_t setup_gemm(int shared_limit) {
  for (const auto kernel :
       {gemm_broad_kernel<kKind>, gemm_few_strips_kernel<kKind>, gemm_wide_kernel<kKind, 8>,
        gemm_wide_kernel<kKind, 4>, gemm_wide_kernel<kKind, 2>, gemm_narrow_kernel<kKind, true>,
        gemm_narrow_kernel<kKind, false>}) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace quire::kernels
