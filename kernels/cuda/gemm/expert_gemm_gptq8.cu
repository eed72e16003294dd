#include "kernels/cuda/gemm/gemm_experts.cuh"

namespace quire::kernels {

cudaError_t launch_expert_gemm_gptq8(const ExpertArguments& a, int32_t tiles, cudaStream_t stream,
                                     bool dependent) {
  return launch_expert_gemm<TileKind::gptq8>(a, tiles, stream, dependent);
}

cudaError_t setup_expert_gemm_gptq8(int shared_limit) {
  return setup_expert_gemm<TileKind::gptq8>(shared_limit);
}

}  // namespace quire::kernels
