// Kernel launches with or without programmatic dependent launch.
#pragma once

#include <cuda_runtime.h>
#include <utility>

namespace quire::kernels {

// Launches in clusters of `cluster` blocks.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_clusters(dim3 cluster, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                            size_t shared_bytes, cudaStream_t stream, bool dependent,
                            Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  if (dependent) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster.x * cluster.y > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster.x, cluster.y, 1};
  }
  config.attrs = attributes;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, bool dependent, Arguments&&... arguments) {
  return launch_clusters(dim3(1), kernel, grid, block, shared_bytes, stream, dependent,
                         std::forward<Arguments>(arguments)...);
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_pairs(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                         cudaStream_t stream, bool dependent, Arguments&&... arguments) {
  return launch_clusters(dim3(1, 2), kernel, grid, block, shared_bytes, stream, dependent,
                         std::forward<Arguments>(arguments)...);
}

// Loads kernels onto the card. Loading at the first launch could fail if the card is full by then.
template <typename... Kernels>
cudaError_t load_kernels(Kernels... kernels) {
  cudaError_t error = cudaSuccess;
  const auto load = [&](const void* kernel) {
    cudaFuncAttributes attributes;
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  };
  (load(reinterpret_cast<const void*>(kernels)), ...);
  return error;
}

}  // namespace quire::kernels
