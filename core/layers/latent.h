// Multi-head latent attention (MLA): low-rank queries, keys and values, as in DeepSeek.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct LatentLayer {
  PreparedWeight query_down;  // empty: queries are computed by one matrix
  NormLayer query_norm;
  PreparedWeight query;
  PreparedWeight latent;  // the latent, followed by the part of the keys that all heads share
  int32_t shared_key_dim = 0;
  NormLayer latent_norm;
  PreparedWeight expand;

  // Writes the queries, keys and values of `input` to workspace.qkv, and the normalized low-rank query to
  // Scratch::low_rank_normed.
  void forward(const ForwardPass& pass, const kernels::AttentionSpec& attention, const void* input) const;

 private:
  void make_query(const ForwardPass& pass, const void* input) const;
  void make_latent(const ForwardPass& pass, const void* input) const;
};

void build(const LatentPart& part, LayerBuilder& builder, LatentLayer& layer);
// Keeps the given query heads, which are in ascending order. `attention` is the spec before the cut.
void cut(LatentPart& part, const kernels::AttentionSpec& attention, const std::vector<int32_t>& heads);
void needs(const LatentPart& part, Needs& all);
void each_weight(const LatentLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const LatentPart& part);

}  // namespace quire
