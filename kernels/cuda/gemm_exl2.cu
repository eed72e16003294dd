#include "kernels/cuda/gemm.cuh"

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

cudaError_t gemm_clusters(int size, int shared_limit, int* count) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 1;
  attribute.val.clusterDim.y = static_cast<unsigned>(size);
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(1, static_cast<unsigned>(size));
  config.blockDim = dim3(kGemmThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_limit);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(count, gemm_wide_kernel<TileKind::exl2, 4>, &config);
}

}  // namespace quire::kernels
