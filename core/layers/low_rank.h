// Product by two matrices with a narrow row between them.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

class LayerBuilder;

// up(down(input)).
struct LowRankLayer {
  PreparedWeight down;
  PreparedWeight up;
  int32_t rank = 0;

  // Writes f32 rows to `target`. Uses Scratch::low_rank.
  void forward(const ForwardPass& pass, const void* input, float* target) const;
};

void build(const LowRankPart& part, LayerBuilder& builder, LowRankLayer& layer);
void needs(const LowRankPart& part, Needs& all);
void each_weight(const LowRankLayer& layer, WeightVisitor& visitor);

}  // namespace quire
