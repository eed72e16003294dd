#include "core/layers/mamba1.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

namespace {

kernels::SelectiveScanSpec spec_of(const Mamba1Part& part) {
  kernels::SelectiveScanSpec spec;
  spec.channels = part.channels;
  spec.state_dim = part.state_dim;
  spec.norm.gate = kernels::GateKind::silu;
  spec.norm.group_columns = part.channels;
  return spec;
}

// Writes `columns` of strided rows to `target`, normalised if there is a norm.
void take_columns(const ForwardPass& pass, const std::optional<NormLayer>& norm, const float* rows,
                  int32_t stride, int32_t columns, float* target) {
  if (!norm) return copy_rows(pass, target, columns, rows, stride, columns);
  kernels::NormParams params = norm->params();
  params.input = rows;
  params.input_stride = stride;
  params.rows = pass.num_tokens();
  params.output_f32 = target;
  pass.context.check(pass.context.table().norm(pass.context.handle(), &params), "a norm");
}

void build_norm(const std::optional<NormPart>& part, LayerBuilder& builder, std::optional<NormLayer>& layer) {
  if (part) build(*part, builder, layer.emplace());
}

// Returns [columns, rows] of [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, size_t columns) {
  std::vector<float> out(values.size());
  const size_t rows = values.size() / columns;
  for (size_t i = 0; i < values.size(); ++i) out[i % columns * rows + i / columns] = values[i];
  return out;
}

}  // namespace

void build(const Mamba1Part& part, LayerBuilder& builder, Mamba1Layer& layer) {
  static_cast<kernels::SelectiveScanSpec&>(layer) = spec_of(part);
  builder.request(layer.in, {part.in});
  build(part.conv, builder, layer.conv);
  builder.request(layer.select, {part.select});
  layer.step_rank = part.step_rank;
  build_norm(part.step_norm, builder, layer.step_norm);
  build_norm(part.b_norm, builder, layer.b_norm);
  build_norm(part.c_norm, builder, layer.c_norm);
  builder.request(layer.step, {part.step});
  layer.a_log = builder.floats(
      transposed(builder.host_vector(part.a_log), static_cast<size_t>(part.state_dim)), part.a_log.name);
  layer.skip = builder.vector(part.skip);
  build(part.out, part.outputs, builder, layer.out);
}

void needs(const Mamba1Part& part, Needs& all) {
  require_state_sizes("Mamba-1", part.state_dim, part.conv.num_taps);
  need_rows({part.in}, part.channels, part.out, part.outputs, all);
  Needs::raise(all.shape().columns.qkv, part.channels);
  all.matrix(part.select);
  all.matrix(part.step);
  all.scratch(Scratch::other, part.select.outputs());
  all.scratch(Scratch::low_rank, part.step_rank);
  all.scratch(Scratch::rounded, part.step_rank);
  all.scratch(Scratch::index_query, part.state_dim);
  all.scratch(Scratch::index_key, part.state_dim);
  all.scratch(Scratch::expanded, part.channels);
  all.state(kernels::state_bytes(kernels::state_shape(convolution_of(part.conv))));
  all.state(kernels::state_bytes(kernels::state_shape(spec_of(part))));
}

void each_weight(const Mamba1Layer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.in, 1.0);
  each_weight(layer.conv, visitor);
  visitor.matrix(layer.select, 1.0);
  for (const std::optional<NormLayer>* norm : {&layer.step_norm, &layer.b_norm, &layer.c_norm})
    if (*norm) each_weight(**norm, visitor);
  visitor.matrix(layer.step, 1.0);
  visitor.vector(layer.a_log);
  visitor.vector(layer.skip);
  each_weight(layer.out, visitor);
}

uint64_t mechanisms(const Mamba1Part&) {
  return kernels::kMechanismSelectiveScan | kernels::kMechanismConvolution;
}

void Mamba1Layer::choose(const ForwardPass& pass, kernels::SelectiveScanParams& params) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens(), columns = step_rank + 2 * state_dim;
  float* const chosen = space.at(Scratch::other);
  float* const low_rank = space.at(Scratch::low_rank);
  multiply_rows(pass, select, space.qkv, chosen, tokens);
  take_columns(pass, step_norm, chosen, columns, step_rank, low_rank);
  take_columns(pass, b_norm, chosen + step_rank, columns, state_dim, space.at(Scratch::index_key));
  take_columns(pass, c_norm, chosen + step_rank + state_dim, columns, state_dim,
               space.at(Scratch::index_query));
  multiply_rows(pass, step, rounded_rows(pass, low_rank, step_rank), space.at(Scratch::expanded), tokens);
  params.step = {space.at(Scratch::expanded), channels};
  params.key = {space.at(Scratch::index_key), state_dim};
  params.query = {space.at(Scratch::index_query), state_dim};
}

void Mamba1Layer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  float* const rows = pass.workspace.at(Scratch::query);
  multiply_rows(pass, in, block.input_rows(pass), rows, pass.num_tokens());
  const kernels::StateRows convolved = convolve_rows(pass, cache, conv, rows, 2 * channels);
  kernels::SelectiveScanParams params;
  static_cast<kernels::SelectiveScanSpec&>(params) = *this;
  set_state(pass, cache, conv_state_bytes(conv), params);
  choose(pass, params);
  params.input = convolved;
  params.a_log = a_log.as<float>();
  params.skip = skip.as<float>();
  params.norm_input.gate = {rows + channels, 2 * channels};
  pass.context.check(pass.context.table().selective_scan(pass.context.handle(), &params), "Mamba");
  out.forward(pass, block);
}

}  // namespace quire
