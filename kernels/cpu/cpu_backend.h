// The CPU backend, embedded in every build: one device, host memory, the best instruction set of the machine.
//
// QUIRE_CPU_ISA = scalar, avx2 or avx512 in the environment forces an instruction set at open_device; one
// that the processor lacks is Status::unsupported.
#pragma once

#include "kernels/interface/kernel_table.h"

namespace quire::kernels {

const Backend& cpu_backend();

}  // namespace quire::kernels
