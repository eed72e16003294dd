// What this machine can do at best, measured: the denominators of every figure of speed.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

struct MachineLimits {
  double read_bytes_per_second = 0.0;  // memory beyond the caches, all threads of the device
  double dot_ops_per_second = 0.0;     // 16-bit multiplications and 32-bit additions, likewise
};

// The best of some short runs on the device's threads, about half a second. Takes up to 512 MiB of memory for
// the time of the call. The device is one of cpu_backend().
Status measure_machine_limits(Device* device, MachineLimits* limits);

}  // namespace quire::kernels
