// Differential attention: the heads of the second half are subtracted from the heads of the first half.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct DifferentialLayer {
  float lambda = 0.0f;  // factor of the second half
  NormLayer norm;       // norm of each head of the difference

  // Returns norm(first half - lambda * second half) of workspace.attention, whose rows have `columns`
  // columns. The heads of the result are twice as wide as query heads. The result is valid until Scratch::row
  // is written.
  const void* forward(const ForwardPass& pass, int32_t columns) const;
};

// `head_columns` is the width of one head of the difference.
void build(const DifferentialPart& part, int32_t head_columns, LayerBuilder& builder,
           DifferentialLayer& layer);
// `columns` is the width of a row of attention results, over all shards.
void needs(const DifferentialPart& part, int32_t columns, Needs& all);
uint64_t mechanisms(const DifferentialPart& part);

}  // namespace quire
