// The difference of two attentions: heads of the second half are taken from those of the first.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct DifferentialLayer {
  float lambda = 0.0f;  // factor of the second half
  NormLayer norm;       // norm of a pair of heads

  // Returns norm(first half - lambda * second half) of workspace.attention, whose rows have `columns`
  // columns. A head of the result is as wide as two of queries. The result stays valid until Scratch::row is
  // written.
  const void* forward(const ForwardPass& pass, int32_t columns) const;
};

// `head_columns` is the width of a pair of heads of the result.
void build(const DifferentialPart& part, int32_t head_columns, LayerBuilder& builder,
           DifferentialLayer& layer);
// `columns` are those of a row of results of attention, of all shards.
void needs(const DifferentialPart& part, int32_t columns, Needs& all);
uint64_t mechanisms(const DifferentialPart& part);

}  // namespace quire
