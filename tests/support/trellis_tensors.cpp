#include "tests/support/trellis_fixture.h"

namespace quire::testing {

void add_trellis(SafetensorsBuilder& file, const std::string& key, const TrellisFixture& matrix) {
  const int64_t inputs = matrix.padded_in(), outputs = matrix.padded_out();
  file.add(key + ".trellis", "I16", {inputs / 16, outputs / 16, int64_t{8} * matrix.kind.half_bits},
           matrix.tiles);
  file.add(key + ".suh", "F16", {inputs}, matrix.input_scales);
  file.add(key + ".svh", "F16", {outputs}, matrix.output_scales);
  if (matrix.kind.codebook == kernels::TrellisCodebook::mcg)
    file.add(key + ".mcg", "I32", {}, std::vector<uint32_t>{0xcbac1fedU});
  if (matrix.kind.codebook == kernels::TrellisCodebook::mul1)
    file.add(key + ".mul1", "I32", {}, std::vector<uint32_t>{0x83dcd12dU});
  if (!matrix.bias.empty()) file.add(key + ".bias", "F32", {matrix.num_out}, matrix.bias);
}

}  // namespace quire::testing
