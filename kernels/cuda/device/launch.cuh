// Kernel launches with or without programmatic dependent launch.
#pragma once

#include <cuda_runtime.h>

namespace quire::kernels {

template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                          cudaStream_t stream, bool dependent, Arguments&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute[1] = {};
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attribute;
  config.numAttrs = dependent ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// Puts kernels on the card. Left to their first launch, that would fail on a card that is full by then.
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
