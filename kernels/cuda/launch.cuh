// Kernel launches with or without programmatic dependent launch.
#pragma once

#include <cuda_runtime.h>
#include <utility>

namespace quire::kernels {

// `cluster` blocks are started together and may read each other's shared memory; cards without clusters take
// only {1, 1, 1}.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_cluster(void (*kernel)(Parameters...), dim3 grid, dim3 block, dim3 cluster,
                           size_t shared_bytes, cudaStream_t stream, bool dependent,
                           Arguments&&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster.x * cluster.y * cluster.z > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = cluster.x;
    attributes[count].val.clusterDim.y = cluster.y;
    attributes[count++].val.clusterDim.z = cluster.z;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, bool dependent, Arguments&&... arguments) {
  return launch_cluster(kernel, grid, block, dim3(1, 1, 1), shared_bytes, stream, dependent,
                        std::forward<Arguments>(arguments)...);
}

}  // namespace quire::kernels
