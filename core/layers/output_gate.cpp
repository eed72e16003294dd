#include "core/layers/output_gate.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const OutputGatePart& part, LayerBuilder& builder, OutputGateLayer& layer) {
  layer.num_gates = part.projection.outputs();
  layer.is_softplus = part.is_softplus;
  builder.request(layer.projection, {part.projection});
}

void needs(const OutputGatePart& part, Needs& all) {
  all.matrix(part.projection);
  all.scratch(Scratch::other, part.projection.outputs());
}

void each_weight(const OutputGateLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.projection, 1.0);
}

void OutputGateLayer::project(const ForwardPass& pass, const void* input) const {
  multiply_rows(pass, projection, input, pass.workspace.at(Scratch::other), pass.num_tokens());
}

void OutputGateLayer::apply(const ForwardPass& pass, int32_t columns) const {
  const float* gates = pass.workspace.at(Scratch::other);
  kernels::RowOpParams params;
  params.target = pass.workspace.attention;
  params.target_is_activation = true;
  if (is_softplus || num_gates != columns) {
    params.op = is_softplus ? kernels::RowOp::softplus_by_row : kernels::RowOp::sigmoid_by_row;
    params.b = gates;
    params.rows = pass.num_tokens() * num_gates;
    params.columns = columns / num_gates;
  } else {
    params.op = kernels::RowOp::sigmoid_multiply;
    params.a = gates;
    params.columns = columns;
  }
  run_row_op(pass, params);
}

}  // namespace quire
