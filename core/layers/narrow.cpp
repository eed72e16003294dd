#include "core/layers/narrow.h"

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const NarrowPart& part, LayerBuilder& builder, NarrowLayer& layer) {
  layer.width = part.down.outputs();
  layer.outputs = part.outputs;
  builder.request(layer.down, {part.down});
  builder.request(layer.up, {part.up});
}

void cut(NarrowPart& part, const ShardCut& shard) {
  part.outputs = shard.hidden();
  keep_own_outputs(part.up, part.outputs);
}

void needs(const NarrowPart& part, Needs& all) {
  const int32_t width = part.down.outputs();
  all.matrix(part.down);
  all.matrix(part.up);
  for (const Scratch kind : {Scratch::low_rank, Scratch::latent, Scratch::rounded}) all.scratch(kind, width);
  all.slice(part.outputs);
}

void each_weight(const NarrowLayer& layer, WeightVisitor& visitor) {
  visitor.matrix(layer.down, 1.0);
  visitor.matrix(layer.up, 1.0);
}

const void* NarrowLayer::narrowed(const ForwardPass& pass, const void* input) const {
  void* const rows = pass.workspace.at(Scratch::low_rank);
  multiply_rows_to_activations(pass, down, input, rows);
  return rows;
}

void NarrowLayer::widen(const ForwardPass& pass, float* target) const {
  multiply_rows(pass, up, rounded_rows(pass, sums(pass), width), target, pass.num_tokens(), outputs);
}

}  // namespace quire
