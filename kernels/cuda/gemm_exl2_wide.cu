#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/gemm_setup.h"

namespace quire::kernels {

cudaError_t launch_gemm_exl2_wide(const GemmArguments& a, int tokens_per_tile, cudaStream_t stream,
                                  bool dependent) {
  switch (tokens_per_tile) {
    case 32:
      return launch_gemm<TileKind::exl2, 4>(a, stream, dependent);
    default:
      return launch_gemm<TileKind::exl2, 8>(a, stream, dependent);
  }
}

cudaError_t setup_gemm_exl2_wide() {
  if (const cudaError_t error = allow_shared_memory<TileKind::exl2, 4>(); error != cudaSuccess) return error;
  return allow_shared_memory<TileKind::exl2, 8>();
}

}  // namespace quire::kernels
