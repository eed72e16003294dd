// What this processor and its operating system can run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa_kernels.h"
#include "kernels/interface/status.h"

namespace quire::kernels {

// The kernels of the best instruction set, or of the one called `forced` ("scalar", "avx2", "avx512"; nullptr
// or empty: none is forced). `unsupported` where that one is unknown or cannot run here.
Status choose_kernels(const char* forced, const IsaKernels** chosen);

// The name that the processor gives itself, or "CPU".
void processor_name(char* text, size_t size);

}  // namespace quire::kernels
