#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_trellis(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::trellis>(a, stream, dependent);
}

cudaError_t setup_gemm_trellis(int shared_limit) {
  return setup_gemm<TileKind::trellis>(shared_limit);
}

}  // namespace quire::kernels
