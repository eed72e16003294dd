#include "core/layers/mlp_and_experts.h"

#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const MlpAndExpertsPart& part, LayerBuilder& builder, MlpAndExpertsLayer& layer) {
  build(part.dense, builder, layer.dense);
  build(part.experts, builder, layer.experts);
  build(part.dense_post_norm, builder, layer.dense_post_norm);
  build(part.experts_norm, builder, layer.experts_norm);
  build(part.experts_post_norm, builder, layer.experts_post_norm);
}

void cut(MlpAndExpertsPart& part, const ShardCut& shard) {
  cut(part.dense, shard);
  cut(part.experts, shard);
}

void needs(const MlpAndExpertsPart& part, Needs& all) {
  needs(part.dense, all);
  needs(part.experts, all);
  all.scratch(Scratch::other, all.hidden());
}

void each_weight(const MlpAndExpertsLayer& layer, WeightVisitor& visitor) {
  each_weight(layer.dense, visitor);
  each_weight(layer.experts, visitor);
  for (const NormLayer* norm : {&layer.dense_post_norm, &layer.experts_norm, &layer.experts_post_norm})
    each_weight(*norm, visitor);
}

uint64_t mechanisms(const MlpAndExpertsPart& part) {
  return mechanisms(part.dense) | mechanisms(part.experts);
}

void MlpAndExpertsLayer::forward(const ForwardPass& pass, const Block& block) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  float* sum = space.at(Scratch::projected);
  experts.write_to(pass, {.norm = &experts_norm}, sum, block.hidden());
  norm_rows_f32(pass, experts_post_norm, sum, sum, tokens);
  norm_rows(pass, block.norm, space.hidden, space.normed, tokens);
  float* of_dense = space.at(Scratch::other);
  dense.write_to(pass, space.normed, of_dense);
  norm_rows_onto(pass, dense_post_norm, of_dense, sum, tokens);
  block.add_result(pass, sum);
}

}  // namespace quire
