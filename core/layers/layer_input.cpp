#include "core/layers/layer_input.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const LayerInputPart& part, int32_t layer_idx, LayerBuilder& builder, LayerInputLayer& layer) {
  layer.activation = part.activation;
  layer.columns = part.gate.num_out;
  layer.layer_idx = layer_idx;
  layer.num_layers = builder.num_layers();
  build(part.norm, builder, layer.norm);
  builder.request(layer.gate, {part.gate});
  builder.request(layer.projection, {part.projection});
}

void needs(const LayerInputPart& part, Needs& all) {
  all.scratch(Scratch::low_rank, part.gate.num_out);
  for (const Scratch kind : {Scratch::rounded, Scratch::projected, Scratch::other})
    all.scratch(kind, all.hidden());
}

void each_weight(const LayerInputLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.gate, 1.0);
  visitor.matrix(layer.projection, 1.0);
  each_weight(layer.norm, visitor);
}

uint64_t mechanisms(const LayerInputPart&) {
  return kernels::kMechanismStreams;
}

void LayerInputLayer::forward(const ForwardPass& pass, const StreamsLayer* streams) const {
  const int32_t hidden = norm.columns;
  const float* given = pass.workspace.at(Scratch::projected);
  if (streams == nullptr) {
    project(pass, pass.workspace.hidden);
    return add_rows(pass, pass.workspace.hidden, given, hidden);
  }
  float* scaled = pass.workspace.at(Scratch::other);
  copy_rows(pass, scaled, hidden, pass.workspace.hidden, hidden, hidden);
  if (streams->output_scale.bytes() != 0) {
    kernels::RowOpParams scale;
    scale.op = kernels::RowOp::scale_columns;
    scale.target = scaled;
    scale.a = streams->output_scale.as<float>();
    scale.columns = hidden;
    run_row_op(pass, scale);
  }
  project(pass, scaled);
  for (int32_t s = 1; s < streams->num_streams; ++s)
    add_rows(pass, stream_at(pass, Scratch::streams, s - 1, hidden), given, hidden);
}

void LayerInputLayer::project(const ForwardPass& pass, float* rows) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  void* gated = space.at(Scratch::low_rank);
  multiply_rows_to_activations(pass, gate, rounded_rows(pass, rows, norm.columns), gated);
  kernels::ActivationParams act;
  act.activation = activation;
  act.gated = false;
  act.intermediate = columns;
  act.input = gated;
  act.rows = tokens;
  act.output = gated;
  pass.context.check(pass.context.table().activation(pass.context.handle(), &act), "embeddings of layers");
  kernels::RowOpParams multiply;
  multiply.op = kernels::RowOp::multiply;
  multiply.target = gated;
  multiply.target_is_activation = true;
  multiply.a = space.at(Scratch::layer_input) + static_cast<size_t>(layer_idx) * static_cast<size_t>(columns);
  multiply.a_stride = columns * num_layers;
  multiply.columns = columns;
  run_row_op(pass, multiply);
  float* given = space.at(Scratch::projected);
  multiply_rows(pass, projection, gated, given, tokens);
  norm_rows_f32(pass, norm, given, given, tokens);
}

}  // namespace quire
