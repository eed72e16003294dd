// What a card of compute capability 8.0 has not, and what only a card can measure.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/limits.h"

namespace quire::kernels {

cudaError_t setup_attention_warpgroup(bool* available) {
  *available = false;
  return cudaSuccess;
}
bool warpgroup_fits(const AttentionParams&) {
  return false;
}
cudaError_t launch_attention_warpgroup(const AttentionParams&, const int32_t*, bool, const AttentionRoom&,
                                       Launch) {
  return cudaErrorNotSupported;
}

Status measure_read_rate(Device*, uint64_t, double*) {
  return Status::unsupported;
}
Status measure_op_rate(Device*, double*) {
  return Status::unsupported;
}

}  // namespace quire::kernels
