#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_gptq8(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::gptq8>(a, stream, dependent);
}

cudaError_t setup_gemm_gptq8(int shared_limit) {
  return setup_gemm<TileKind::gptq8>(shared_limit);
}

}  // namespace quire::kernels
