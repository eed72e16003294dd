#include "core/config/families/alibi.h"

#include <bit>
#include <cmath>

namespace quire::families {
namespace {

std::vector<float> slopes_of(int32_t num_heads, double max_bias) {
  const auto whole = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(num_heads)));
  std::vector<float> slopes;
  for (int32_t h = 0; h < num_heads; ++h) {
    const double exponent = h < whole ? h + 1.0 : h - whole + 0.5;
    slopes.push_back(static_cast<float>(std::exp2(-max_bias * exponent / whole)));
  }
  return slopes;
}

}  // namespace

void use_alibi(ModelReader& reader, double max_bias) {
  reader.model().ropes.clear();
  reader.each_layer([&](LayerSpec& layer, int32_t) {
    ModelReader::drop_rope(layer);
    AttentionPart& part = layer.attention();
    part.has_slopes = true;
    part.slopes = slopes_of(part.heads.num_heads, max_bias);
  });
}

}  // namespace quire::families
