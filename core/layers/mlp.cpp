#include "core/layers/mlp.h"

#include "core/layers/rows.h"

namespace quire {

void MlpLayer::activate(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t rows = pass.num_tokens();
  kernels::LinearParams product;
  product.weight = gate_up.get();
  product.input = input;
  product.rows = rows;
  product.output = space.gate_up;
  const DeviceContext& context = pass.context;
  context.check(context.table().linear(context.handle(), &product), "feed-forward");
  kernels::ActivationParams params;
  static_cast<kernels::MlpSpec&>(params) = *this;
  params.input = space.gate_up;
  params.rows = rows;
  params.output = activated.is_split() ? space.at(kernels::Scratch::slice) : space.activated;
  context.check(context.table().activation(context.handle(), &params), "feed-forward");
  if (activated.is_split()) gather_slices(pass, activated, rows, pass.activation_dtype(), space.activated);
}

void MlpLayer::add_to(const ForwardPass& pass, const void* input, float* target) const {
  activate(pass, input);
  multiply_rows_onto(pass, down, pass.workspace.activated, target, pass.num_tokens(), outputs);
}

void MlpLayer::write_to(const ForwardPass& pass, const void* input, float* target) const {
  activate(pass, input);
  multiply_rows(pass, down, pass.workspace.activated, target, pass.num_tokens(), outputs);
}

}  // namespace quire
