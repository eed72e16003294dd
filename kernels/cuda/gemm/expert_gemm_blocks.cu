#include "kernels/cuda/gemm/gemm_experts.cuh"

namespace quire::kernels {

cudaError_t launch_expert_gemm_blocks(const ExpertArguments& a, int32_t tiles, cudaStream_t stream,
                                      bool dependent) {
  return launch_expert_gemm<TileKind::blocks>(a, tiles, stream, dependent);
}

cudaError_t setup_expert_gemm_blocks(int shared_limit) {
  return setup_expert_gemm<TileKind::blocks>(shared_limit);
}

}  // namespace quire::kernels
