// Launches of the emulation, in place of kernels/cuda/device/launch.cuh.
#pragma once

#include <cuda_runtime.h>
#include <utility>

#include "tests/cuda_emulation/emulation.h"

namespace quire::kernels {

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, bool, Arguments&&... arguments) {
  emulation::issue(kernel, {grid, block, shared_bytes, stream}, std::forward<Arguments>(arguments)...);
  return cudaSuccess;
}

// Clusters of blocks are of compute capability 9.0, which the emulated device has not.
template <typename Kernel, typename... Arguments>
cudaError_t launch_clusters(dim3 cluster, Kernel kernel, dim3 grid, dim3 block, size_t shared_bytes,
                            cudaStream_t stream, bool dependent, Arguments&&... arguments) {
  if (cluster.x * cluster.y != 1) return cudaErrorNotSupported;
  return launch_kernel(kernel, grid, block, shared_bytes, stream, dependent,
                       std::forward<Arguments>(arguments)...);
}
template <typename... Arguments>
cudaError_t launch_pairs(Arguments&&...) {
  return cudaErrorNotSupported;
}

template <typename... Kernels>
cudaError_t load_kernels(Kernels...) {
  return cudaSuccess;
}

}  // namespace quire::kernels
