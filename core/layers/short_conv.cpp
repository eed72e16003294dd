#include "core/layers/short_conv.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {
void build(const ShortConvPart& part, LayerBuilder& builder, ShortConvLayer& layer) {
  builder.request(layer.in, {part.in});
  build(part.conv, builder, layer.conv);
  build(part.out, part.outputs, builder, layer.out);
}

void needs(const ShortConvPart& part, Needs& all) {
  require_state_sizes("short convolutions", 0, part.conv.num_taps);
  need_rows({part.in}, part.conv.channels, part.out, part.outputs, all);
  all.state(kernels::state_bytes(kernels::state_shape(convolution_of(part.conv))));
}

void each_weight(const ShortConvLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.in, 1.0);
  each_weight(layer.conv, visitor);
  each_weight(layer.out, visitor);
}

uint64_t mechanisms(const ShortConvPart&) {
  return kernels::kMechanismConvolution;
}

void ShortConvLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  const int32_t columns = conv.channels;
  float* const rows = pass.workspace.at(kernels::Scratch::query);
  multiply_rows(pass, in, block.input_rows(pass), rows, pass.num_tokens());
  kernels::ConvolveParams params;
  static_cast<kernels::ConvolutionSpec&>(params) = conv.spec();
  set_state(pass, cache, 0, params);
  params.before = {rows, 3 * columns};
  params.after = {rows + columns, 3 * columns};
  params.input = {rows + 2 * columns, 3 * columns};
  params.weights = conv.from(0);
  pass.context.check(pass.context.table().convolve(pass.context.handle(), &params), "a convolution");
  out.forward(pass, block);
}

}  // namespace quire
