#include "core/layers/lightning.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {
namespace {

kernels::LinearAttentionSpec spec_of(const LightningPart& part) {
  kernels::LinearAttentionSpec spec;
  spec.num_heads = part.num_heads;
  spec.head_dim = part.head_dim;
  spec.norm.gate = kernels::GateKind::sigmoid;
  spec.norm.normalises = true;
  spec.norm.group_columns = part.num_heads * part.head_dim;
  spec.norm.epsilon = part.norm.epsilon;
  return spec;
}

}  // namespace

void build(const LightningPart& part, LayerBuilder& builder, LightningLayer& layer) {
  static_cast<kernels::LinearAttentionSpec&>(layer) = spec_of(part);
  builder.request(layer.in, part.in);
  layer.slopes = builder.floats(part.slopes, "slopes of lightning attention");
  layer.norm_weight = builder.vector(part.norm.weight);
  build(part.out, part.outputs, builder, layer.out);
}

void needs(const LightningPart& part, Needs& all) {
  require_state_sizes("lightning attention", part.head_dim, 0);
  need_rows(part.in, part.num_heads * part.head_dim, part.out, part.outputs, all);
  all.state(kernels::state_bytes(kernels::state_shape(spec_of(part))));
}

void each_weight(const LightningLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.in, 1.0);
  visitor.vector(layer.slopes);
  visitor.vector(layer.norm_weight);
  each_weight(layer.out, visitor);
}

uint64_t mechanisms(const LightningPart&) {
  return kernels::kMechanismLinearAttention;
}

void LightningLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  const int32_t columns = num_heads * head_dim;
  float* const rows = pass.workspace.at(kernels::Scratch::query);
  multiply_rows(pass, in, block.input_rows(pass), rows, pass.num_tokens());
  kernels::LinearAttentionParams params;
  static_cast<kernels::LinearAttentionSpec&>(params) = *this;
  set_state(pass, cache, 0, params);
  params.query = {rows, 4 * columns};
  params.key = {rows + columns, 4 * columns};
  params.value = {rows + 2 * columns, 4 * columns};
  params.norm_input.gate = {rows + 3 * columns, 4 * columns};
  params.norm_input.weight = norm_weight.as<float>();
  params.slopes = slopes.as<float>();
  pass.context.check(pass.context.table().linear_attention(pass.context.handle(), &params),
                     "lightning attention");
  out.forward(pass, block);
}

}  // namespace quire
