#include "core/layers/laurel.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const LaurelPart& part, LayerBuilder& builder, LaurelLayer& layer) {
  build(part.norm, builder, layer.norm);
  builder.request(layer.left, {part.left});
  builder.request(layer.right, {part.right});
}

void needs(const LaurelPart& part, Needs& all) {
  all.scratch(Scratch::low_rank, part.left.num_out);
  all.scratch(Scratch::row, all.hidden());
  all.scratch(Scratch::projected, all.hidden());
}

void each_weight(const LaurelLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.left, 1.0);
  visitor.matrix(layer.right, 1.0);
  each_weight(layer.norm, visitor);
}

uint64_t mechanisms(const LaurelPart&) {
  return kernels::kMechanismStreams;
}

void LaurelLayer::forward(const ForwardPass& pass, const void* normed) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  float* out = space.at(Scratch::row);
  void* low = space.at(Scratch::low_rank);
  multiply_rows_to_activations(pass, left, normed, low);
  multiply_rows(pass, right, low, space.at(Scratch::projected), tokens);
  kernels::RowOpParams copy;
  copy.op = kernels::RowOp::copy;
  copy.target = out;
  copy.a = normed;
  copy.a_is_activation = true;
  copy.columns = norm.columns;
  run_row_op(pass, copy);
  norm_rows_onto(pass, norm, space.at(Scratch::projected), out, tokens);
}

void LaurelLayer::join(const ForwardPass& pass) const {
  constexpr float kRootOfHalf = 0.70710678118654752f;
  add_rows(pass, pass.workspace.hidden, pass.workspace.at(Scratch::row), norm.columns);
  scale_rows(pass, pass.workspace.hidden, norm.columns, kRootOfHalf);
}

}  // namespace quire
