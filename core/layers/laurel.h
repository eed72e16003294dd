// LAuReL of Gemma 3n: a low-rank path parallel to attention.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

struct LaurelLayer {
  PreparedWeight left;
  PreparedWeight right;
  NormLayer norm;

  // Writes normed + norm(right(left(normed))) to Scratch::row. Runs before attention.
  void forward(const ForwardPass& pass, const void* normed) const;
  // Replaces the residual stream by (hidden + Scratch::row) / sqrt(2). Runs after attention.
  void join(const ForwardPass& pass) const;
};

void build(const LaurelPart& part, LayerBuilder& builder, LaurelLayer& layer);
void needs(const LaurelPart& part, Needs& all);
void each_weight(const LaurelLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const LaurelPart& part);

}  // namespace quire
