// Instruction sets that this processor and its operating system support.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa_kernels.h"
#include "kernels/interface/status.h"

namespace quire::kernels {

// Chooses the kernels of the best instruction set, or of the one named `forced` ("scalar", "avx2", "avx512";
// nullptr or empty: none is forced). Returns `unsupported` if that name is unknown or cannot run here.
Status choose_kernels(const char* forced, const IsaKernels** chosen);

// Writes the processor's brand string, or "CPU".
void processor_name(char* text, size_t size);

}  // namespace quire::kernels
