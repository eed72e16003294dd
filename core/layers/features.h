// Hidden states of a target model as the input of a draft network.
#pragma once

#include <optional>

#include "core/layers/forward_pass.h"
#include "core/layers/needs.h"
#include "core/layers/norm.h"

namespace quire {

struct FeaturesLayer {
  int32_t hidden = 0;
  int32_t num_states = 1;
  int32_t state_columns = 0;
  std::optional<NormLayer> norm;
  PreparedWeight reduction;   // empty: none
  PreparedWeight projection;  // empty: none
  NormLayer embedding_norm;
  NormLayer state_norm;
  bool state_first = false;

  // Makes the features of each token, in Scratch::features, from the target's states, in Scratch::states. A
  // token after a draft has the network's own state as its features.
  void reduce(const ForwardPass& pass) const;
  // Joins the features to the embedding in the residual stream.
  void forward(const ForwardPass& pass) const;
};

void build(const FeaturesPart& part, LayerBuilder& builder, FeaturesLayer& layer);
void needs(const FeaturesPart& part, Needs& all);
void each_weight(const FeaturesLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const FeaturesPart& part);

}  // namespace quire
