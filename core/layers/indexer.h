// Indexer of sparse attention: chooses the keys that each token attends to.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct IndexerLayer : kernels::IndexerSpec {
  PreparedWeight query;  // reads the normalized low-rank query
  PreparedWeight key;
  NormLayer key_norm;
  PreparedWeight weights;
  PreparedWeight gate;     // of keys, for pools; else empty
  DeviceBuffer pool_bias;  // likewise

  // Writes one bit per token and key to Scratch::selected; a set bit means that the token attends to the key.
  // Reads Scratch::low_rank_normed.
  void forward(const ForwardPass& pass, const LayerCache& cache, const RopeTables& tables,
               const void* input) const;

 private:
  // Writes the keys, and for pools their gates, to Scratch::index_key.
  void make_keys(const ForwardPass& pass, const void* input) const;
};

// Returns the number of 32-bit words that the selection of one token takes.
inline int32_t selection_words(const ForwardPass& pass) {
  return (pass.max_context + 31) / 32;
}

void build(const IndexerPart& part, LayerBuilder& builder, IndexerLayer& layer);
void needs(const IndexerPart& part, Needs& all);
void each_weight(const IndexerLayer& layer, WeightVisitor& visitor);

}  // namespace quire
