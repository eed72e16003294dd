// Peak rates of the card. Benchmarks divide by them.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace quire::kernels {

Status measure_read_rate(Device* device, uint64_t working_set_bytes, double* bytes_per_second);
// Measures tensor cores with f16 operands in registers or shared memory and f32 sums.
Status measure_op_rate(Device* device, double* ops_per_second);

}  // namespace quire::kernels
