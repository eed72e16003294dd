// Place of a mixer or a feed-forward part in a layer that has only the other one: it has no weights, and the
// residual stream passes it unchanged.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"
#include "core/layers/shard_cut.h"

namespace quire {

class LayerBuilder;

struct EmptyLayer {
  void forward(const ForwardPass&, const LayerCache&, const Block&) const {}
  void forward(const ForwardPass&, const Block&) const {}
};

inline void build(const EmptyPart&, LayerBuilder&, EmptyLayer&) {}
inline void cut(EmptyPart&, bool, ShardCut&) {}
inline void cut(EmptyPart&, const ShardCut&) {}
inline void needs(const EmptyPart&, Needs&) {}
inline void each_weight(const EmptyLayer&, WeightVisitor&) {}
inline uint64_t mechanisms(const EmptyPart&) {
  return 0;
}
inline bool can_cut_heads(const EmptyPart&, const ShardCut&) {
  return true;
}
inline int32_t source_of_pages(const EmptyPart&) {
  return -1;
}
inline int32_t first_source(const EmptyPart&, int32_t layer) {
  return layer;
}

}  // namespace quire
