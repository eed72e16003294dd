#include "core/layers/mamba2.h"

#include <algorithm>
#include <limits>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

namespace {

kernels::StateSpaceSpec spec_of(const Mamba2Part& part) {
  kernels::StateSpaceSpec spec;
  spec.num_heads = part.num_heads;
  spec.num_groups = part.num_groups;
  spec.state_dim = part.state_dim;
  spec.head_dim = part.head_dim;
  spec.conv_taps = part.conv.num_taps;
  spec.least_step = part.least_step;
  spec.most_step = std::min(part.largest_step, std::numeric_limits<float>::max());
  spec.norm.gate = kernels::GateKind::silu;
  spec.norm.normalises = part.norm != kernels::GatedNorm::none;
  spec.norm.gates_first = part.norm == kernels::GatedNorm::after_gate;
  spec.norm.group_columns = part.gated_norm ? part.gated_norm->columns : inner_columns(part);
  if (part.gated_norm) spec.norm.epsilon = part.gated_norm->epsilon;
  return spec;
}

}  // namespace

void build(const Mamba2Part& part, LayerBuilder& builder, Mamba2Layer& layer) {
  static_cast<kernels::StateSpaceSpec&>(layer) = spec_of(part);
  builder.request(layer.in, part.in);
  build(part.conv, builder, layer.conv);
  layer.a_log = builder.vector(part.a_log);
  layer.dt_bias = builder.vector(part.dt_bias);
  layer.skip = builder.vector(part.skip);
  if (part.gated_norm) layer.norm_weight = builder.vector(part.gated_norm->weight);
  build(part.out, part.outputs, builder, layer.out);
}

void needs(const Mamba2Part& part, Needs& all) {
  require_state_sizes("Mamba-2", part.state_dim, part.conv.num_taps);
  need_rows(part.in, inner_columns(part), part.out, part.outputs, all);
  all.state(kernels::state_bytes(kernels::state_shape(spec_of(part))));
}

void each_weight(const Mamba2Layer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.in, 1.0);
  each_weight(layer.conv, visitor);
  for (const DeviceBuffer* vector : {&layer.a_log, &layer.dt_bias, &layer.skip, &layer.norm_weight})
    visitor.vector(*vector);
  each_weight(layer.out, visitor);
}

uint64_t mechanisms(const Mamba2Part&) {
  return kernels::kMechanismStateSpace;
}

void Mamba2Layer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  const int32_t inner = num_heads * head_dim, keys = num_groups * state_dim;
  const int32_t num_in = 2 * inner + 2 * keys + num_heads;
  float* const rows = pass.workspace.at(Scratch::query);
  multiply_rows(pass, in, block.input_rows(pass), rows, pass.num_tokens());
  kernels::StateSpaceParams params;
  static_cast<kernels::StateSpaceSpec&>(params) = *this;
  set_state(pass, cache, 0, params);
  params.norm_input.gate = {rows, num_in};
  params.input = {rows + inner, num_in};
  params.key = {rows + 2 * inner, num_in};
  params.query = {rows + 2 * inner + keys, num_in};
  params.step = {rows + 2 * inner + 2 * keys, num_in};
  params.input_taps = conv.from(0);
  params.key_taps = conv.from(inner);
  params.query_taps = conv.from(inner + keys);
  params.a_log = a_log.as<float>();
  params.step_bias = dt_bias.as<float>();
  params.skip = skip.as<float>();
  params.norm_input.weight = norm_weight.as<float>();
  pass.context.check(pass.context.table().state_space(pass.context.handle(), &params), "Mamba-2");
  out.forward(pass, block);
}

void build(const AttentionAndMambaPart& part, LayerBuilder& builder, AttentionAndMambaLayer& layer) {
  build(part.attention, builder, layer.attention);
  build(part.mamba, builder, layer.mamba);
}

void cut(AttentionAndMambaPart& part, bool cuts_heads, ShardCut& shard) {
  cut(part.attention, cuts_heads, shard);
  cut(part.mamba, cuts_heads, shard);
}

void needs(const AttentionAndMambaPart& part, Needs& all) {
  needs(part.attention, all);
  needs(part.mamba, all);
}

void each_weight(const AttentionAndMambaLayer& layer, WeightVisitor& visitor) {
  each_weight(layer.attention, visitor);
  each_weight(layer.mamba, visitor);
}

uint64_t mechanisms(const AttentionAndMambaPart& part) {
  return mechanisms(part.attention) | mechanisms(part.mamba);
}

bool can_cut_heads(const AttentionAndMambaPart& part, const ShardCut& shard) {
  return can_cut_heads(part.attention, shard);
}

int32_t source_of_pages(const AttentionAndMambaPart& part) {
  return source_of_pages(part.attention);
}

int32_t first_source(const AttentionAndMambaPart& part, int32_t layer) {
  return first_source(part.attention, layer);
}

// The first result enters the residual stream while the second part still reads the normalised rows.
void AttentionAndMambaLayer::forward(const ForwardPass& pass, const LayerCache& cache,
                                     const Block& block) const {
  const Block both = {block.norm, block.post_norm, block.input_rows(pass)};
  mamba.forward(pass, cache, both);
  attention.forward(pass, cache, both);
}

}  // namespace quire
