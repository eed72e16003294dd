#include "core/layers/features.h"

#include <algorithm>

#include "core/layers/layer_builder.h"
#include "core/layers/pair_rows.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const FeaturesPart& part, LayerBuilder& builder, FeaturesLayer& layer) {
  layer.hidden = builder.model().hidden_size;
  layer.num_states = part.num_states;
  layer.state_columns = part.state_columns;
  layer.state_first = part.state_first;
  if (part.norm) build(*part.norm, builder, layer.norm.emplace());
  if (part.reduction) builder.request(layer.reduction, {*part.reduction});
  if (!part.projection) return;
  builder.request(layer.projection, {*part.projection});
  build(part.embedding_norm, builder, layer.embedding_norm);
  build(part.state_norm, builder, layer.state_norm);
}

void needs(const FeaturesPart& part, Needs& all) {
  const int32_t columns = part.num_states * part.state_columns;
  // Between two passes it has the network's own states.
  all.scratch(Scratch::states, std::max(columns, all.hidden()));
  all.scratch(Scratch::features, all.hidden());
  all.scratch(Scratch::rounded, columns);
  all.row(columns);
  if (part.reduction) all.matrix(*part.reduction);
  if (!part.projection) return;
  all.matrix(*part.projection);
  need_pair_rows(all);
}

void each_weight(const FeaturesLayer& layer, WeightVisitor& visitor) {
  if (layer.norm) each_weight(*layer.norm, visitor);
  visitor.matrix(layer.reduction, 1.0);
  visitor.matrix(layer.projection, 1.0);
  each_weight(layer.embedding_norm, visitor);
  each_weight(layer.state_norm, visitor);
}

uint64_t mechanisms(const FeaturesPart& part) {
  uint64_t bits = part.norm ? mechanisms(*part.norm) : 0U;
  if (part.projection) bits |= mechanisms(part.embedding_norm) | mechanisms(part.state_norm);
  return bits;
}

void FeaturesLayer::reduce(const ForwardPass& pass) const {
  const int32_t columns = num_states * state_columns;
  float* const states = pass.workspace.at(Scratch::states);
  float* const features = pass.workspace.at(Scratch::features);
  if (norm) norm_rows_f32(pass, *norm, states, states, pass.num_tokens() * num_states);
  if (reduction.get() == nullptr) return copy_rows(pass, features, hidden, states, columns, hidden);
  multiply_rows(pass, reduction, rounded_rows(pass, states, columns), features, pass.num_tokens());
}

void FeaturesLayer::forward(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  const float* const features = space.at(Scratch::features);
  if (projection.get() == nullptr) return copy_rows(pass, space.hidden, hidden, features, hidden, hidden);
  const NormedRows of_embedding = {embedding_norm, space.hidden};
  const NormedRows of_state = {state_norm, features};
  const void* const both =
      state_first ? pair_rows(pass, of_state, of_embedding) : pair_rows(pass, of_embedding, of_state);
  multiply_rows(pass, projection, both, space.hidden, pass.num_tokens());
}

}  // namespace quire
