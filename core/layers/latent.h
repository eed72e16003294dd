// Latent attention: queries, keys and values out of products of low rank, as DeepSeek has them.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct LatentLayer {
  PreparedWeight query_down;  // empty: queries are one product
  NormLayer query_norm;
  PreparedWeight query;
  PreparedWeight latent;  // the latent, then the rotary part of the keys
  NormLayer latent_norm;
  PreparedWeight expand;

  // Writes queries, keys and values of `input` to workspace.qkv, and leaves the normalised low-rank query in
  // Scratch::low_rank_normed.
  void forward(const ForwardPass& pass, const kernels::AttentionSpec& attention, const void* input) const;

 private:
  void make_query(const ForwardPass& pass, const void* input) const;
  void make_latent(const ForwardPass& pass, int32_t rotary_dim, const void* input) const;
};

void build(const LatentPart& part, LayerBuilder& builder, LatentLayer& layer);
// Leaves the named heads of queries, which rise; `attention` is the spec before it was cut.
void cut(LatentPart& part, const kernels::AttentionSpec& attention, const std::vector<int32_t>& heads);
void needs(const LatentPart& part, Needs& all);
void each_weight(const LatentLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const LatentPart& part);

}  // namespace quire
