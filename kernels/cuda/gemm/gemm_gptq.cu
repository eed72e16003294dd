#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_gptq(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::gptq>(a, stream, dependent);
}

cudaError_t setup_gemm_gptq(int shared_limit) {
  return setup_gemm<TileKind::gptq>(shared_limit);
}

}  // namespace quire::kernels
