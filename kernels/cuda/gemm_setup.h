// Raises the shared-memory limit of each kernel; once per device, with the device current.
#pragma once

#include <cuda_runtime.h>

namespace quire::kernels {

cudaError_t setup_gemm_exl2();
cudaError_t setup_gemm_exl2_wide();
cudaError_t setup_gemm_gptq();
cudaError_t setup_gemm_dense();
cudaError_t setup_attention_decode();
cudaError_t setup_attention_prefill();

}  // namespace quire::kernels
