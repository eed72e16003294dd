// Replaces measurements that need a card.
#include "kernels/cuda/device/limits.h"

namespace quire::kernels {

Status measure_read_rate(Device*, uint64_t, double*) {
  return Status::unsupported;
}
Status measure_op_rate(Device*, double*) {
  return Status::unsupported;
}

}  // namespace quire::kernels
