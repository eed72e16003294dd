// Kernels for the base instruction set of x86-64, or of another architecture. Everything here has internal
// linkage and calls no inline functions of shared headers: the linker must not use code compiled with this
// file's flags elsewhere.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa_kernels.h"
// The vector header comes first: the other headers use it.
// clang-format off
#include "kernels/cpu/isa/vector_scalar.h"
#include "kernels/cpu/isa/math_lanes.h"
#include "kernels/cpu/isa/elementwise_lanes.h"
#include "kernels/cpu/isa/product_lanes.h"
#include "kernels/cpu/isa/dense_lanes.h"
#include "kernels/cpu/isa/code_lanes.h"
#include "kernels/cpu/isa/dots_lanes.h"
#include "kernels/cpu/isa/quant_lanes.h"
#include "kernels/cpu/isa/kv_lanes.h"
#include "kernels/cpu/isa/attention_lanes.h"
#include "kernels/cpu/isa/limits_lanes.h"
#include "kernels/cpu/state/state_math.h"
#include "kernels/cpu/state/convolve_lanes.h"
#include "kernels/cpu/state/gate_lanes.h"
#include "kernels/cpu/state/heads_lanes.h"
#include "kernels/cpu/state/scan_lanes.h"
#include "kernels/cpu/isa/kernel_list.h"
// clang-format on

namespace quire::kernels {
namespace {

constexpr IsaKernels kKernels =
    list_kernels("scalar", scalar_block_panels, scalar_block_panels, scalar_trellis_panel);

}  // namespace

const IsaKernels& scalar_kernels() {
  return kKernels;
}

}  // namespace quire::kernels
