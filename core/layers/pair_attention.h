// Attention that reads the token's embedding beside the residual stream, as the first layer of an EAGLE-3
// network.
#pragma once

#include "core/layers/attention.h"

namespace quire {

// hidden += attention([embedding_norm(e) | norm(hidden)]), with e in Scratch::streams.
struct PairAttentionLayer {
  NormLayer embedding_norm;
  bool norms_stream = false;  // norm(hidden) replaces the stream before the sum
  AttentionLayer attention;

  // Adds the result to the residual stream.
  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const PairAttentionPart& part, LayerBuilder& builder, PairAttentionLayer& layer);
void cut(PairAttentionPart& part, bool cuts_heads, ShardCut& shard);
void needs(const PairAttentionPart& part, Needs& all);
void each_weight(const PairAttentionLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const PairAttentionPart& part);
bool can_cut_heads(const PairAttentionPart& part, const ShardCut& shard);
int32_t source_of_pages(const PairAttentionPart& part);
int32_t first_source(const PairAttentionPart& part, int32_t layer);

}  // namespace quire
