#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_mxfp4(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::mxfp4>(a, stream, dependent);
}

cudaError_t setup_gemm_mxfp4(int shared_limit) {
  return setup_gemm<TileKind::mxfp4>(shared_limit);
}

}  // namespace quire::kernels
