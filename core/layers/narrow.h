// Experts in a narrower space: a product before the experts, and one after their weighted sum.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/needs.h"
#include "core/layers/shard_cut.h"
#include "core/layers/weight_visitor.h"

namespace quire {

class LayerBuilder;

struct NarrowLayer {
  PreparedWeight down;  // [hidden, width]; with several shards each of them computes it whole
  PreparedWeight up;    // [width, hidden]
  int32_t width = 0;
  ShardColumns outputs;  // columns that `up` computes

  // Returns the narrow rows of `input`, in Scratch::low_rank.
  const void* narrowed(const ForwardPass& pass, const void* input) const;
  // Returns the rows for the sum over the experts, [tokens, width].
  float* sums(const ForwardPass& pass) const { return pass.workspace.at(kernels::Scratch::latent); }
  // Writes the result of the sums to `target`, [tokens, hidden].
  void widen(const ForwardPass& pass, float* target) const;
};

void build(const NarrowPart& part, LayerBuilder& builder, NarrowLayer& layer);
void cut(NarrowPart& part, const ShardCut& shard);
void needs(const NarrowPart& part, Needs& all);
void each_weight(const NarrowLayer& layer, WeightVisitor& visitor);

}  // namespace quire
