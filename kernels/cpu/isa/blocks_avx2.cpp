// Products with blocks for AVX2. See avx2.cpp for what holds here.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa_kernels.h"
// The vector header comes first: the other headers use it.
// clang-format off
#include "kernels/cpu/isa/vector_avx2.h"
#include "kernels/cpu/isa/product_lanes.h"
#include "kernels/cpu/isa/code_lanes.h"
#include "kernels/cpu/isa/dots_avx2.h"
#include "kernels/cpu/isa/quant_lanes.h"
#include "kernels/cpu/isa/block_lanes.h"
// clang-format on

namespace quire::kernels {

void avx2_block_panels(const QuantPanels& panels, const QuantTile& tile, const PanelOutput& output) {
  block_panels<2>(panels, tile, output);
}

}  // namespace quire::kernels
