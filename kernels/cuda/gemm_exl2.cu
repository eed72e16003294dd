#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/gemm_setup.h"

namespace quire::kernels {

cudaError_t launch_gemm_exl2(const GemmArguments& a, int tokens_per_tile, cudaStream_t stream,
                             bool dependent) {
  switch (tokens_per_tile) {
    case 8:
      return launch_gemm<TileKind::exl2, 1>(a, stream, dependent);
    default:
      return launch_gemm<TileKind::exl2, 2>(a, stream, dependent);
  }
}

cudaError_t setup_gemm_exl2() {
  if (const cudaError_t error = allow_shared_memory<TileKind::exl2, 1>(); error != cudaSuccess) return error;
  return allow_shared_memory<TileKind::exl2, 2>();
}

}  // namespace quire::kernels
