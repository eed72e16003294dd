#include "kernels/cuda/gemm/gemm_experts.cuh"

namespace quire::kernels {

// Only single rows: `tiles` is their number.
cudaError_t launch_expert_gemm_trellis(const ExpertArguments& a, int32_t tiles, cudaStream_t stream,
                                       bool dependent) {
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(a.shape.blocks));
  return launch_kernel(expert_narrow_kernel<TileKind::trellis>, grid, dim3(kNarrowThreads),
                       a.shape.shared_bytes + kExpertBytes + a.staged_bytes, stream, dependent, a);
}

cudaError_t setup_expert_gemm_trellis(int shared_limit) {
  return cudaFuncSetAttribute(expert_narrow_kernel<TileKind::trellis>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, shared_limit);
}

}  // namespace quire::kernels
