#include "core/layers/experts.h"

#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void ExpertMatrices::collect() {
  handles.clear();
  for (const PreparedWeight& matrix : matrices) handles.push_back(matrix.get());
}

void multiply_experts(const ForwardPass& pass, const ExpertMatrices& experts, const ExpertRows& rows,
                      const ExpertTarget& target) {
  kernels::ExpertLinearParams params;
  params.experts = experts.handles.data();
  params.num_experts = gsl::narrow<int32_t>(experts.handles.size());
  params.expert_of_row = reinterpret_cast<const int32_t*>(pass.workspace.at(Scratch::chosen));
  params.input = rows.input;
  params.rows_per_input = rows.rows_per_input;
  params.input_scale = rows.input_scale;
  params.rows = rows.rows;
  params.same_rows = rows.same_as_before;
  params.output = target.output;
  params.mlp = target.mlp;
  params.products = target.products;
  pass.context.check(pass.context.table().expert_linear(pass.context.handle(), &params), "experts");
}

void RouterLayer::forward(const ForwardPass& pass, const ExpertInput& input) const {
  kernels::ExpertChoiceParams params;
  static_cast<kernels::RouterSpec&>(params) = static_cast<const kernels::RouterSpec&>(*this);
  params.input = input.rows;
  if (input.norm != nullptr) params.norm = input.norm->params();
  params.router = matrix.get();
  params.choice_bias = choice_bias.as<float>();
  params.expert_scale = expert_scale.as<float>();
  params.num_tokens = pass.num_tokens();
  params.workspace = pass.workspace;
  pass.context.check(pass.context.table().choose_experts(pass.context.handle(), &params), "choosing experts");
}

namespace {

void add_shared(const ForwardPass& pass, const ExpertsLayer& layer, const void* input, float* target,
                int32_t hidden) {
  if (layer.shared_gate.get() == nullptr) return layer.shared->add_to(pass, input, target);
  float* given = pass.workspace.at(Scratch::other);
  layer.shared->write_to(pass, input, given);
  float* gate = pass.workspace.at(Scratch::router);
  multiply_rows(pass, layer.shared_gate, input, gate, pass.num_tokens());
  kernels::RowOpParams params;
  params.op = kernels::RowOp::gate;
  params.target = target;
  params.a = given;
  params.b = gate;
  params.columns = hidden;
  run_row_op(pass, params);
}

}  // namespace

void ExpertsLayer::sum_up(const ForwardPass& pass, const ExpertInput& input,
                          kernels::CombineParams& sum) const {
  const kernels::Workspace& space = pass.workspace;
  if (router_norm) {
    if (input.norm != nullptr) norm_rows(pass, *input.norm, space.hidden, space.normed, pass.num_tokens());
    norm_rows(pass, *router_norm, space.hidden, space.at(Scratch::row), pass.num_tokens());
    router.forward(pass, {.rows = space.at(Scratch::row)});
  } else {
    router.forward(pass, input);
  }
  const int32_t rows = pass.num_tokens() * router.num_chosen;
  const float* weights = space.at(Scratch::weights);
  const float* input_scale = router.scales_input ? weights : nullptr;
  float* between = space.at(activated.is_split() ? Scratch::slice : Scratch::expert_mid);
  multiply_experts(pass, gate_up, {input.normed_rows(space), router.num_chosen, input_scale, rows},
                   {between, &expert, space.at(Scratch::expert_in)});
  if (activated.is_split())
    gather_slices(pass, activated, rows, pass.activation_dtype(), space.at(Scratch::expert_mid));
  multiply_experts(pass, down, {space.at(Scratch::expert_mid), 1, nullptr, rows, true},
                   {space.at(Scratch::expert_out)});
  sum.input = space.at(Scratch::expert_out);
  sum.weights = router.scales_input ? nullptr : weights;
  sum.num_chosen = router.num_chosen;
  sum.tokens = pass.num_tokens();
  pass.context.check(pass.context.table().combine(pass.context.handle(), &sum), "experts");
}

void ExpertsLayer::add_to(const ForwardPass& pass, const ExpertInput& input, float* target,
                          int32_t hidden) const {
  kernels::CombineParams sum;
  sum.columns = hidden;
  sum.target = target;
  sum.adds = true;
  sum_up(pass, input, sum);
}

void ExpertsLayer::forward(const ForwardPass& pass, const ExpertInput& input, float* target,
                           int32_t hidden) const {
  kernels::CombineParams sum;
  const kernels::ColumnSplit split = outputs.split();
  sum.columns = split.is_split() ? split.own() : hidden;
  sum.target = split.is_split() ? pass.workspace.at(Scratch::slice) : target;
  sum_up(pass, input, sum);
  if (outputs.is_split()) gather_slices(pass, outputs, pass.num_tokens(), kernels::DType::f32, target);
  if (shared) add_shared(pass, *this, input.normed_rows(pass.workspace), target, hidden);
  if (output_bias.bytes() == 0) return;
  kernels::RowOpParams bias;
  bias.op = kernels::RowOp::add_columns;
  bias.target = target;
  bias.a = output_bias.as<float>();
  bias.columns = hidden;
  run_row_op(pass, bias);
}

}  // namespace quire
