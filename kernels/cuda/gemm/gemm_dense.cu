#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_dense(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::dense>(a, stream, dependent);
}

cudaError_t setup_gemm_dense(int shared_limit) {
  return setup_gemm<TileKind::dense>(shared_limit);
}

}  // namespace quire::kernels
