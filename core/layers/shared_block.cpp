#include "core/layers/shared_block.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const SharedBlockPart& part, LayerBuilder& builder, SharedBlockLayer& layer) {
  build(part.norm, builder, layer.norm);
  build(part.attention, builder, layer.attention);
  build(part.feed_forward_norm, builder, layer.feed_forward_norm);
  build(part.mlp, builder, layer.mlp);
  build(part.adapter, builder, layer.adapter);
  builder.request(layer.linear, {part.linear});
  build(part.mamba, builder, layer.mamba);
}

void cut(SharedBlockPart& part, bool cuts_heads, ShardCut& shard) {
  cut(part.attention, cuts_heads, shard);
  cut(part.mamba, cuts_heads, shard);
}

void needs(const SharedBlockPart& part, Needs& all) {
  needs(part.attention, all);
  needs(part.mlp, all);
  needs(part.adapter, all);
  needs(part.mamba, all);
  all.matrix(part.linear);
  all.row(part.norm.columns);
  all.scratch(Scratch::other, part.norm.columns);
  all.scratch(Scratch::low_rank_normed, part.norm.columns);
  all.scratch(Scratch::latent, all.hidden());
  all.scratch(Scratch::query, 2 * part.mlp.intermediate);
  all.scratch(Scratch::expanded, 2 * part.mlp.intermediate);
  all.scratch(Scratch::projected, all.hidden());
  all.scratch(Scratch::rounded, all.hidden());
}

void each_weight(const SharedBlockLayer& layer, WeightVisitor& visitor) {
  each_weight(layer.norm, visitor);
  each_weight(layer.attention, visitor);
  each_weight(layer.feed_forward_norm, visitor);
  each_weight(layer.mlp, visitor);
  each_weight(layer.adapter, visitor);
  visitor.matrix(layer.linear, 1.0);
  each_weight(layer.mamba, visitor);
}

uint64_t mechanisms(const SharedBlockPart& part) {
  return mechanisms(part.norm) | mechanisms(part.attention) | mechanisms(part.feed_forward_norm) |
         mechanisms(part.mlp) | mechanisms(part.mamba);
}

bool can_cut_heads(const SharedBlockPart& part, const ShardCut& shard) {
  return can_cut_heads(part.attention, shard);
}

int32_t source_of_pages(const SharedBlockPart& part) {
  return source_of_pages(part.attention);
}

int32_t first_source(const SharedBlockPart& part, int32_t layer) {
  return first_source(part.attention, layer);
}

void SharedBlockLayer::attend(const ForwardPass& pass, const LayerCache& cache) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t wide = norm.columns, hidden = wide / 2;
  float* const both = space.at(Scratch::other);
  copy_rows(pass, both, wide, space.hidden, hidden, hidden);
  copy_rows(pass, both + hidden, wide, space.at(Scratch::streams), hidden, hidden);
  norm_rows(pass, norm, both, space.at(Scratch::low_rank_normed), pass.num_tokens());
  scale_rows(pass, space.hidden, hidden, 0.0f);
  attention.forward(pass, cache, {feed_forward_norm, nullptr, space.at(Scratch::low_rank_normed)});
}

void SharedBlockLayer::feed_forward(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens(), columns = 2 * mlp.intermediate;
  float* const products = space.at(Scratch::query);
  norm_rows(pass, feed_forward_norm, space.hidden, space.normed, tokens);
  multiply_rows(pass, mlp.gate_up, space.normed, products, tokens);
  adapter.forward(pass, space.normed, space.at(Scratch::expanded));
  add_rows(pass, products, space.at(Scratch::expanded), columns);
  mlp.activate_products(pass, products);
  multiply_rows(pass, mlp.down, space.activated, space.at(Scratch::projected), tokens);
  const int32_t hidden = feed_forward_norm.columns;
  multiply_rows(pass, linear, rounded_rows(pass, space.at(Scratch::projected), hidden), space.hidden, tokens);
}

void SharedBlockLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t hidden = block.hidden();
  float* const stream = space.at(Scratch::latent);
  copy_rows(pass, stream, hidden, space.hidden, hidden, hidden);
  attend(pass, cache);
  feed_forward(pass);
  add_rows(pass, space.hidden, stream, hidden);
  norm_rows(pass, block.norm, space.hidden, space.normed, pass.num_tokens());
  copy_rows(pass, space.hidden, hidden, stream, hidden, hidden);
  mamba.forward(pass, cache, {block.norm, block.post_norm, space.normed});
}

}  // namespace quire
