#include "core/layers/low_rank.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void LowRankLayer::forward(const ForwardPass& pass, const void* input, float* target) const {
  float* const between = pass.workspace.at(Scratch::low_rank);
  multiply_rows(pass, down, input, between, pass.num_tokens());
  multiply_rows(pass, up, rounded_rows(pass, between, rank), target, pass.num_tokens());
}

void build(const LowRankPart& part, LayerBuilder& builder, LowRankLayer& layer) {
  layer.rank = part.down.outputs();
  builder.request(layer.down, {part.down});
  builder.request(layer.up, {part.up});
}

void needs(const LowRankPart& part, Needs& all) {
  all.matrix(part.down);
  all.matrix(part.up);
  all.scratch(Scratch::low_rank, part.down.outputs());
  all.scratch(Scratch::rounded, part.down.outputs());
}

void each_weight(const LowRankLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.down, 1.0);
  visitor.matrix(layer.up, 1.0);
}

}  // namespace quire
