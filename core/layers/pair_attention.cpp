#include "core/layers/pair_attention.h"

#include "core/layers/layer_builder.h"
#include "core/layers/pair_rows.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const PairAttentionPart& part, LayerBuilder& builder, PairAttentionLayer& layer) {
  build(part.embedding_norm, builder, layer.embedding_norm);
  layer.norms_stream = part.norms_stream;
  build(part.attention, builder, layer.attention);
}

void cut(PairAttentionPart& part, bool cuts_heads, ShardCut& shard) {
  cut(part.attention, cuts_heads, shard);
}

void needs(const PairAttentionPart& part, Needs& all) {
  needs(part.attention, all);
  need_pair_rows(all);
}

void each_weight(const PairAttentionLayer& layer, WeightVisitor& visitor) {
  each_weight(layer.embedding_norm, visitor);
  each_weight(layer.attention, visitor);
}

uint64_t mechanisms(const PairAttentionPart& part) {
  return mechanisms(part.embedding_norm) | mechanisms(part.attention);
}

bool can_cut_heads(const PairAttentionPart& part, const ShardCut& shard) {
  return can_cut_heads(part.attention, shard);
}

int32_t source_of_pages(const PairAttentionPart& part) {
  return source_of_pages(part.attention);
}

int32_t first_source(const PairAttentionPart& part, int32_t layer) {
  return first_source(part.attention, layer);
}

void PairAttentionLayer::forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const {
  float* const hidden = pass.workspace.hidden;
  const void* const rows =
      pair_rows(pass, {embedding_norm, pass.workspace.at(Scratch::streams)}, {block.norm, hidden});
  if (norms_stream) norm_rows_f32(pass, block.norm, hidden, hidden, pass.num_tokens());
  attention.forward(pass, cache, {block.norm, block.post_norm, rows});
}

}  // namespace quire
