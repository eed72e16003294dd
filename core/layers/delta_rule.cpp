#include "core/layers/delta_rule.h"

#include <cmath>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

namespace {

kernels::DeltaRuleSpec rule_of(const DeltaPart& part) {
  kernels::DeltaRuleSpec spec;
  spec.num_heads = part.num_value_heads;
  spec.num_key_heads = part.num_key_heads;
  spec.key_dim = part.key_dim;
  spec.value_dim = part.value_dim;
  spec.conv_taps = part.conv.num_taps;
  spec.decay_per_channel = part.decays_by_channel;
  spec.decay_kind = part.decay_form == kernels::DeltaDecay::bounded ? kernels::DecayKind::bounded
                                                                    : kernels::DecayKind::softplus;
  spec.lower_bound = part.decay_bound;
  spec.beta_scale = part.beta_scale;
  spec.norm.gate =
      part.gate_form == kernels::StateGate::sigmoid ? kernels::GateKind::sigmoid : kernels::GateKind::silu;
  spec.norm.normalises = true;
  spec.norm.shared_weight = true;
  spec.norm.group_columns = part.value_dim;
  spec.norm.epsilon = part.norm.epsilon;
  return spec;
}

int32_t num_values(const kernels::DeltaRuleSpec& spec) {
  return spec.num_heads * spec.value_dim;
}

}  // namespace

void build(const DeltaPart& part, LayerBuilder& builder, DeltaLayer& layer) {
  static_cast<kernels::DeltaRuleSpec&>(layer) = rule_of(part);
  Expects(std::abs(part.query_scale * std::sqrt(static_cast<float>(part.key_dim)) - 1.0f) < 1e-5f);
  builder.request(layer.in, part.in);
  builder.request(layer.rates, part.rates);
  layer.num_rates = columns_of(part.rates);
  if (part.decay_path) build(*part.decay_path, builder, layer.decay_path.emplace());
  if (part.gate_path) build(*part.gate_path, builder, layer.gate_path.emplace());
  build(part.conv, builder, layer.conv);
  layer.a_log = builder.vector(part.a_log);
  layer.dt_bias = builder.vector(part.dt_bias);
  layer.norm_weight = builder.vector(part.norm.weight);
  build(part.out, part.outputs, builder, layer.out);
}

void needs(const DeltaPart& part, Needs& all) {
  require_state_sizes("the gated delta rule", part.key_dim, part.conv.num_taps);
  const kernels::DeltaRuleSpec spec = rule_of(part);
  need_rows(part.in, num_values(spec), part.out, part.outputs, all);
  for (const MatrixPart& rates : part.rates) all.matrix(rates);
  all.row(columns_of(part.rates));
  all.scratch(Scratch::other, columns_of(part.rates));
  if (part.decay_path) {
    needs(*part.decay_path, all);
    all.scratch(Scratch::expanded, part.decay_path->up.outputs());
  }
  if (part.gate_path) {
    needs(*part.gate_path, all);
    all.scratch(Scratch::latent, part.gate_path->up.outputs());
  }
  all.state(kernels::state_bytes(kernels::state_shape(spec)));
  all.solved_lines(kernels::solved_line_bytes(spec));
}

void each_weight(const DeltaLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.in, 1.0);
  visitor.matrix(layer.rates, 1.0);
  if (layer.decay_path) each_weight(*layer.decay_path, visitor);
  if (layer.gate_path) each_weight(*layer.gate_path, visitor);
  each_weight(layer.conv, visitor);
  for (const DeviceBuffer* vector : {&layer.a_log, &layer.dt_bias, &layer.norm_weight})
    visitor.vector(*vector);
  each_weight(layer.out, visitor);
}

uint64_t mechanisms(const DeltaPart&) {
  return kernels::kMechanismDeltaRule;
}

void DeltaLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  const kernels::Workspace& space = pass.workspace;
  const void* const input = block.input_rows(pass);
  const int32_t keys = num_key_heads * key_dim, values = num_values(*this);
  const int32_t num_in = 2 * keys + values + (gate_path ? 0 : values);
  float* const rows = space.at(Scratch::query);
  float* const rate_rows = space.at(Scratch::other);
  multiply_rows(pass, in, input, rows, pass.num_tokens());
  multiply_rows(pass, rates, input, rate_rows, pass.num_tokens());
  kernels::DeltaRuleParams params;
  static_cast<kernels::DeltaRuleSpec&>(params) = *this;
  set_state(pass, cache, 0, params);
  params.query = {rows, num_in};
  params.key = {rows + keys, num_in};
  params.value = {rows + 2 * keys, num_in};
  params.norm_input.gate = {rows + 2 * keys + values, num_in};
  params.beta = {rate_rows, num_rates};
  params.decay = {rate_rows + num_heads, num_rates};
  if (decay_path) {
    const int32_t columns = decay_per_channel ? keys : num_heads;
    decay_path->forward(pass, input, space.at(Scratch::expanded));
    params.decay = {space.at(Scratch::expanded), columns};
  }
  if (gate_path) {
    gate_path->forward(pass, input, space.at(Scratch::latent));
    params.norm_input.gate = {space.at(Scratch::latent), values};
  }
  params.query_taps = conv.from(0);
  params.key_taps = conv.from(keys);
  params.value_taps = conv.from(2 * keys);
  params.a_log = a_log.as<float>();
  params.decay_bias = dt_bias.as<float>();
  params.norm_input.weight = norm_weight.as<float>();
  pass.context.check(pass.context.table().delta_rule(pass.context.handle(), &params), "the gated delta rule");
  out.forward(pass, block);
}

}  // namespace quire
