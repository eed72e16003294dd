#include "kernels/cuda/gemm/gemm.cuh"

namespace quire::kernels {

cudaError_t launch_gemm_exl2(const GemmArguments& a, cudaStream_t stream, bool dependent) {
  return launch_gemm<TileKind::exl2>(a, stream, dependent);
}

cudaError_t setup_gemm_exl2(int shared_limit) {
  return setup_gemm<TileKind::exl2>(shared_limit);
}

cudaError_t gemm_code_version(int* version) {
  cudaFuncAttributes attributes = {};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, gemm_narrow_kernel<TileKind::exl2, true>);
  *version = attributes.ptxVersion;
  return error;
}

}  // namespace quire::kernels
