// The CPU backend, embedded in every build: one device, host memory, the best instruction set of the machine.
//
// The environment variable QUIRE_CPU_ISA = scalar, avx2 or avx512 forces an instruction set at open_device;
// if the processor lacks it, open_device returns Status::unsupported.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

const Backend& cpu_backend();

}  // namespace quire::kernels
