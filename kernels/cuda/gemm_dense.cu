#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/gemm_setup.h"

namespace quire::kernels {

cudaError_t launch_gemm_dense(const GemmArguments& a, int tokens_per_tile, cudaStream_t stream,
                              bool dependent) {
  switch (tokens_per_tile) {
    case 8:
      return launch_gemm<TileKind::dense, 1>(a, stream, dependent);
    case 16:
      return launch_gemm<TileKind::dense, 2>(a, stream, dependent);
    case 32:
      return launch_gemm<TileKind::dense, 4>(a, stream, dependent);
    default:
      return launch_gemm<TileKind::dense, 8>(a, stream, dependent);
  }
}

cudaError_t setup_gemm_dense() {
  if (const cudaError_t error = allow_shared_memory<TileKind::dense, 1>(); error != cudaSuccess) return error;
  if (const cudaError_t error = allow_shared_memory<TileKind::dense, 2>(); error != cudaSuccess) return error;
  if (const cudaError_t error = allow_shared_memory<TileKind::dense, 4>(); error != cudaSuccess) return error;
  return allow_shared_memory<TileKind::dense, 8>();
}

}  // namespace quire::kernels
