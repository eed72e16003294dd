#include "core/layers/mlp.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "kernels/interface/composite.h"

namespace quire {
namespace {

// Reads the parameters of xIELU. The files store alpha for positive and for negative inputs before softplus.
void read_xielu(const std::string& key, LayerBuilder& builder, kernels::MlpSpec& spec) {
  const auto number = [&](std::string_view name) {
    return builder.host_vector({fmt::format("{}.{}", key, name), 1}).front();
  };
  const auto softplus = [](float x) { return std::log1p(std::exp(x)); };
  spec.b = builder.has_tensor(key + ".beta") ? number("beta") : 0.5f;
  spec.limit = builder.has_tensor(key + ".eps") ? number("eps") : -1e-6f;
  spec.a = softplus(number("alpha_p"));
  spec.c = spec.b + softplus(number("alpha_n"));
}

// Keeps only the inner columns of this shard.
void cut_inner(MlpPart& part, const ShardCut& shard) {
  part.activated = shard.columns(part.intermediate);
  if (!part.activated.is_split()) return;
  std::vector<int32_t> outputs = own_columns(part.activated);
  const size_t own = outputs.size();
  for (size_t i = 0; part.gated && i < own; ++i) outputs.push_back(part.intermediate + outputs[i]);
  part.gate_up = selected_outputs(part.gate_up, outputs);
  part.intermediate = static_cast<int32_t>(own);
}

}  // namespace

void build(const MlpPart& part, LayerBuilder& builder, MlpLayer& layer) {
  static_cast<kernels::MlpSpec&>(layer) = static_cast<const kernels::MlpSpec&>(part);
  layer.activated = part.activated;
  layer.outputs = part.outputs;
  if (part.sub_norm) build(*part.sub_norm, builder, layer.sub_norm.emplace());
  if (!part.xielu_key.empty()) read_xielu(part.xielu_key, builder, layer);
  LinearWeight& down = builder.linear(part.down);
  builder.request_folded(layer.gate_up, part.gate_up, down);
  builder.request(layer.down, part.down, down.source(), part.down.key);
}

void cut(MlpPart& part, const ShardCut& shard) {
  cut(part, shard, shard.hidden());
}

// An activation that depends on the whole row needs all inner columns.
void cut(MlpPart& part, const ShardCut& shard, ShardColumns outputs) {
  if (!part.is_sparse) cut_inner(part, shard);
  part.outputs = std::move(outputs);
  keep_own_outputs(part.down, part.outputs);
}

void needs(const MlpPart& part, Needs& all) {
  const int32_t gate_up = (part.gated ? 2 : 1) * part.intermediate;
  const int32_t activated = part.activated.total(part.intermediate);
  Needs::raise(all.shape().columns.gate_up, gate_up);
  Needs::raise(all.shape().columns.activated, activated);
  all.row(gate_up);
  all.row(activated);
  all.slice(part.activated);
  all.slice(part.outputs);
}

void each_weight(const MlpLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.gate_up, 1.0);
  visitor.matrix(layer.down, 1.0);
  if (layer.sub_norm) each_weight(*layer.sub_norm, visitor);
}

uint64_t mechanisms(const MlpPart& part) {
  return kernels::mechanisms_of(part) | mechanisms(part.sub_norm, kernels::kMechanismSubNorm);
}

void MlpLayer::forward(const ForwardPass& pass, const Block& block) const {
  kernels::MlpBlockParams params;
  static_cast<kernels::MlpSpec&>(params) = static_cast<const kernels::MlpSpec&>(*this);
  const kernels::NormParams of_result = block.post_norm ? block.post_norm->params() : kernels::NormParams();
  const kernels::NormParams within = sub_norm ? sub_norm->params() : kernels::NormParams();
  params.norm = block.norm.params();
  params.input = block.input;
  params.gate_up = gate_up.get();
  params.down = down.get();
  if (block.post_norm) params.post_norm = &of_result;
  if (sub_norm) params.sub_norm = &within;
  params.activated = activated.split();
  params.outputs = outputs.split();
  params.num_tokens = pass.num_tokens();
  params.workspace = pass.workspace;
  pass.context.check(pass.context.table().mlp_block(pass.context.handle(), &params), "feed-forward");
}

void MlpLayer::activate(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t rows = pass.num_tokens();
  kernels::LinearParams product = kernels::product_of(gate_up.get(), input, rows);
  product.output = space.gate_up;
  const DeviceContext& context = pass.context;
  context.check(context.table().linear(context.handle(), &product), "feed-forward");
  activate_products(pass);
}

void MlpLayer::activate_products(const ForwardPass& pass, const float* products) const {
  kernels::RowOpParams round;
  round.op = kernels::RowOp::copy;
  round.target = pass.workspace.gate_up;
  round.target_is_activation = true;
  round.a = products;
  round.columns = (gated ? 2 : 1) * intermediate;
  run_row_op(pass, round);
  activate_products(pass);
}

void MlpLayer::activate_products(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t rows = pass.num_tokens();
  const DeviceContext& context = pass.context;
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
