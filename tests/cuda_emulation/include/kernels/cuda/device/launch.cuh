// Launches of the emulation; replaces kernels/cuda/device/launch.cuh.
#pragma once

#include <cuda_runtime.h>
#include <utility>

#include "tests/cuda_emulation/emulation.h"

namespace quire::kernels {

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, bool, Arguments&&... arguments) {
  return emulation::issue(kernel, {grid, block, shared_bytes, stream}, std::forward<Arguments>(arguments)...);
}

// Launches clusters along y. Clusters along x run as independent blocks (sample_team.cuh).
template <typename... Parameters, typename... Arguments>
cudaError_t launch_clusters(dim3 cluster, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                            size_t shared_bytes, cudaStream_t stream, bool, Arguments&&... arguments) {
  return emulation::issue(kernel, {grid, block, shared_bytes, stream, static_cast<int>(cluster.y)},
                          std::forward<Arguments>(arguments)...);
}
template <typename... Parameters, typename... Arguments>
cudaError_t launch_pairs(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                         cudaStream_t stream, bool dependent, Arguments&&... arguments) {
  return launch_clusters(dim3(1, 2), kernel, grid, block, shared_bytes, stream, dependent,
                         std::forward<Arguments>(arguments)...);
}

template <typename... Kernels>
cudaError_t load_kernels(Kernels...) {
  return cudaSuccess;
}

}  // namespace quire::kernels
