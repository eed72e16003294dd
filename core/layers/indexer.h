// The indexer chooses the keys that attention looks at.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct IndexerLayer : kernels::IndexerSpec {
  PreparedWeight query;  // reads the normalised low-rank query
  PreparedWeight key;
  NormLayer key_norm;
  PreparedWeight weights;

  // Leaves a bit for each key of each token in Scratch::selected. Reads Scratch::low_rank_normed.
  void forward(const ForwardPass& pass, const LayerCache& cache, const RopeTables& tables,
               const void* input) const;
};

// Returns the words of 32 bits that a token's selection of keys takes.
inline int32_t selection_words(const ForwardPass& pass) {
  return (pass.max_context + 31) / 32;
}

void build(const IndexerPart& part, LayerBuilder& builder, IndexerLayer& layer);
void needs(const IndexerPart& part, Needs& all);
void each_weight(const IndexerLayer& layer, WeightVisitor& visitor);

}  // namespace quire
