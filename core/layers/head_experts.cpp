#include "core/layers/head_experts.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

namespace {

void build_experts(const MatrixPart& part, int32_t num_experts, LayerBuilder& builder,
                   ExpertMatrices& experts) {
  experts.resize(num_experts, builder);
  const size_t first = builder.num_requests();
  for (int32_t e = 0; e < num_experts; ++e) builder.request(experts.at(e), {part}, e);
  builder.mark_experts(first);
}

// Copies rows into columns of workspace.qkv, from column `first` on.
void copy_to_qkv(const ForwardPass& pass, const kernels::AttentionSpec& attention, const void* rows,
                 int32_t first, int32_t columns) {
  const size_t element = kernels::dtype_bytes(pass.activation_dtype());
  kernels::RowOpParams params;
  params.op = kernels::RowOp::copy;
  params.target = static_cast<uint8_t*>(pass.workspace.qkv) + static_cast<size_t>(first) * element;
  params.target_is_activation = true;
  params.target_stride = qkv_columns(attention);
  params.a = rows;
  params.a_is_activation = true;
  params.columns = columns;
  run_row_op(pass, params);
}

}  // namespace

void build(const HeadExpertsPart& part, LayerBuilder& builder, HeadExpertsLayer& layer) {
  static_cast<kernels::RouterSpec&>(layer.router) = static_cast<const kernels::RouterSpec&>(part);
  builder.request(layer.router.matrix, {part.router});
  build_experts(part.query, part.num_experts, builder, layer.query);
  build_experts(part.output, part.num_experts, builder, layer.output);
  layer.output_bias = builder.vector(part.output_bias);
}

void needs(const HeadExpertsPart& part, const kernels::AttentionSpec& attention, Needs& all) {
  needs(static_cast<const kernels::RouterSpec&>(part), all);
  all.scratch(Scratch::query, query_columns(attention));
  all.scratch(Scratch::expanded, qkv_columns(attention) - query_columns(attention));
  all.expert_matrix(part.query.num_in, part.query.num_out);
}

void each_weight(const HeadExpertsLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.router.matrix, 1.0);
  visitor.vector(layer.router.choice_bias);
  visitor.vector(layer.router.expert_scale);
  each_weight(layer.query, layer.router.share(), visitor);
  each_weight(layer.output, layer.router.share(), visitor);
  visitor.vector(layer.output_bias);
}

uint64_t mechanisms(const HeadExpertsPart&) {
  return kernels::kMechanismHeadExperts;
}

void HeadExpertsLayer::make_qkv(const ForwardPass& pass, const kernels::AttentionSpec& attention,
                                const PreparedWeight& keys, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t rows = pass.num_tokens() * router.num_chosen;
  router.forward(pass, {.rows = input});
  float* queries = space.at(Scratch::query);
  multiply_experts(pass, query, {input, router.num_chosen, nullptr, rows}, {queries});
  float* of_keys = space.at(Scratch::expanded);
  multiply_rows_to_activations(pass, keys, input, of_keys);
  const int32_t of_query = query_columns(attention);
  copy_to_qkv(pass, attention, queries, 0, of_query);
  copy_to_qkv(pass, attention, of_keys, of_query, qkv_columns(attention) - of_query);
}

void HeadExpertsLayer::add_results(const ForwardPass& pass, int32_t hidden) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t rows = pass.num_tokens() * router.num_chosen;
  float* given = space.at(Scratch::expert_out);
  multiply_experts(pass, output, {space.attention, 1, nullptr, rows, true}, {given});
  kernels::CombineParams sum;
  sum.input = given;
  sum.weights = space.at(Scratch::weights);
  sum.num_chosen = router.num_chosen;
  sum.tokens = pass.num_tokens();
  sum.columns = hidden;
  sum.target = space.at(Scratch::projected);
  pass.context.check(pass.context.table().combine(pass.context.handle(), &sum), "experts of heads");
  kernels::RowOpParams bias;
  bias.op = kernels::RowOp::add_columns;
  bias.target = space.at(Scratch::projected);
  bias.a = output_bias.as<float>();
  bias.columns = hidden;
  run_row_op(pass, bias);
  add_rows(pass, space.hidden, space.at(Scratch::projected), hidden);
}

}  // namespace quire
