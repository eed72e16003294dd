#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_fp8(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::fp8>(a, stream, dependent);
}

cudaError_t setup_gemm_fp8(int shared_limit) {
  return setup_gemm<TileKind::fp8>(shared_limit);
}

}  // namespace quire::kernels
