#include "core/layers/latent.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"
#include "core/layers/shard_heads.h"

namespace quire {

using kernels::Scratch;

void build(const LatentPart& part, LayerBuilder& builder, LatentLayer& layer) {
  if (part.query_down) builder.request(layer.query_down, {*part.query_down});
  if (part.query_norm) build(*part.query_norm, builder, layer.query_norm);
  builder.request(layer.query, {part.query});
  builder.request(layer.latent, {part.latent});
  layer.shared_key_dim = part.shared_key_dim;
  build(part.latent_norm, builder, layer.latent_norm);
  builder.request(layer.expand, {part.expand});
}

void cut(LatentPart& part, const kernels::AttentionSpec& attention, const std::vector<int32_t>& heads) {
  keep_outputs(part.query, columns_of_heads(heads, attention.heads.head_dim));
  const int32_t width = attention.heads.head_dim - part.shared_key_dim + value_dim(attention.heads);
  keep_outputs(part.expand, columns_of_heads(heads, width));
}

void needs(const LatentPart& part, Needs& all) {
  if (part.query_down) {
    all.matrix(*part.query_down);
    all.scratch(Scratch::low_rank, part.query_down->num_out);
    all.scratch(Scratch::low_rank_normed, part.query_down->num_out);
  }
  for (const MatrixPart* matrix : {&part.query, &part.latent, &part.expand}) all.matrix(*matrix);
  all.scratch(Scratch::query, part.query.outputs());
  all.scratch(Scratch::latent, part.latent.num_out);
  all.scratch(Scratch::row, part.latent_norm.columns);
  all.scratch(Scratch::expanded, part.expand.num_out);
}

void each_weight(const LatentLayer& layer, WeightVisitor& visitor) {
  for (const PreparedWeight* matrix : {&layer.query_down, &layer.query, &layer.latent, &layer.expand})
    visitor.matrix(*matrix, 1.0);
  each_weight(layer.query_norm, visitor);
  each_weight(layer.latent_norm, visitor);
}

uint64_t mechanisms(const LatentPart&) {
  return kernels::kMechanismLatent;
}

void LatentLayer::make_query(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  if (query_down.get() == nullptr) return multiply_rows(pass, query, input, space.at(Scratch::query), tokens);
  float* low = space.at(Scratch::low_rank);
  multiply_rows(pass, query_down, input, low, tokens);
  norm_rows(pass, query_norm, low, space.at(Scratch::low_rank_normed), tokens);
  multiply_rows(pass, query, space.at(Scratch::low_rank_normed), space.at(Scratch::query), tokens);
}

void LatentLayer::make_latent(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  multiply_rows(pass, latent, input, space.at(Scratch::latent), tokens);
  kernels::NormParams normed = latent_norm.params();
  normed.input = space.at(Scratch::latent);
  normed.input_stride = latent_norm.columns + shared_key_dim;
  normed.rows = tokens;
  normed.output = space.at(Scratch::row);
  pass.context.check(pass.context.table().norm(pass.context.handle(), &normed), "a norm");
  multiply_rows(pass, expand, space.at(Scratch::row), space.at(Scratch::expanded), tokens);
}

void LatentLayer::forward(const ForwardPass& pass, const kernels::AttentionSpec& attention,
                          const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  make_query(pass, input);
  make_latent(pass, input);
  kernels::ExpandLatentParams params;
  static_cast<kernels::AttentionSpec&>(params) = attention;
  params.rotary_dim = shared_key_dim;  // also without RoPE
  params.query = space.at(Scratch::query);
  params.latent = space.at(Scratch::latent);
  params.expanded = space.at(Scratch::expanded);
  params.latent_columns = latent_norm.columns;
  params.num_tokens = pass.num_tokens();
  params.qkv = space.qkv;
  pass.context.check(pass.context.table().expand_latent(pass.context.handle(), &params), "latent attention");
}

}  // namespace quire
