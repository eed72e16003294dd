#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_blocks(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::blocks>(a, stream, dependent);
}

cudaError_t setup_gemm_blocks(int shared_limit) {
  return setup_gemm<TileKind::blocks>(shared_limit);
}

}  // namespace quire::kernels
