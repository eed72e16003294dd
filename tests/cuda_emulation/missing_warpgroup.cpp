// Replaces kernels that need compute capability 9.0.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/gemm/gemm_float8.h"

namespace quire::kernels {

cudaError_t setup_attention_warpgroup(bool* available) {
  *available = false;
  return cudaSuccess;
}
bool warpgroup_fits(const AttentionParams&) {
  return false;
}
cudaError_t launch_attention_warpgroup(const AttentionParams&, const int32_t*, bool, const SplitResources&,
                                       Launch) {
  return cudaErrorNotSupported;
}

cudaError_t setup_gemm_float8(int, bool* available) {
  *available = false;
  return cudaSuccess;
}
cudaError_t launch_gemm_float8(const Float8Arguments&, cudaStream_t, bool) {
  return cudaErrorNotSupported;
}

}  // namespace quire::kernels
