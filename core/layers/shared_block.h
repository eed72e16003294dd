// Mamba-2 whose input is changed by a block of attention and an MLP (Zamba2). The block reads the residual
// stream beside the embedding of the token; its result enters the input of Mamba alone.
#pragma once

#include <optional>

#include "core/layers/mamba2.h"
#include "core/layers/mlp.h"

namespace quire {

struct SharedBlockLayer {
  NormLayer norm;  // of the stream and the embedding, side by side
  AttentionLayer attention;
  NormLayer feed_forward_norm;
  MlpLayer mlp;
  LowRankLayer adapter;  // added to the products of gate and up
  PreparedWeight linear;
  Mamba2Layer mamba;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;

 private:
  // Replaces workspace.hidden by the result of attention over the stream and the embedding.
  void attend(const ForwardPass& pass, const LayerCache& cache) const;
  // Replaces workspace.hidden by linear(mlp(norm(hidden))).
  void feed_forward(const ForwardPass& pass) const;
};

void build(const SharedBlockPart& part, LayerBuilder& builder, SharedBlockLayer& layer);
// Cuts attention and Mamba. Every shard has the whole MLP.
void cut(SharedBlockPart& part, bool cuts_heads, ShardCut& shard);
void needs(const SharedBlockPart& part, Needs& all);
void each_weight(const SharedBlockLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const SharedBlockPart& part);
bool can_cut_heads(const SharedBlockPart& part, const ShardCut& shard);
int32_t source_of_pages(const SharedBlockPart& part);
int32_t first_source(const SharedBlockPart& part, int32_t layer);

}  // namespace quire
