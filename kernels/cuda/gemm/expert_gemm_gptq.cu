#include "kernels/cuda/gemm/gemm_experts.cuh"

namespace quire::kernels {

cudaError_t launch_expert_gemm_gptq(const ExpertArguments& a, int32_t tiles, cudaStream_t stream,
                                    bool dependent) {
  return launch_expert_gemm<TileKind::gptq>(a, tiles, stream, dependent);
}

cudaError_t setup_expert_gemm_gptq(int shared_limit) {
  return setup_expert_gemm<TileKind::gptq>(shared_limit);
}

}  // namespace quire::kernels
