// Products with matrices of EXL3 for AVX-512. See avx512.cpp for what holds here.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa_kernels.h"
// The vector header comes first: the other headers use it.
// clang-format off
#include "kernels/cpu/isa/vector_avx512.h"
#include "kernels/cpu/isa/product_lanes.h"
#include "kernels/cpu/isa/trellis_lanes.h"
// clang-format on

namespace quire::kernels {

void avx512_trellis_panel(const TrellisPanel& panel, const float* input, size_t input_stride, int32_t rows,
                          float* output) {
  trellis_panel(panel, input, input_stride, rows, output);
}

}  // namespace quire::kernels
