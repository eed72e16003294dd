// What the card does at best: the denominators of every figure of speed.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace quire::kernels {

Status measure_read_rate(Device* device, uint64_t working_set_bytes, double* bytes_per_second);
// Of tensor cores on f16 operands that are at hand, sums in f32.
Status measure_op_rate(Device* device, double* ops_per_second);

}  // namespace quire::kernels
