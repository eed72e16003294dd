// A dense feed-forward part and experts side by side, each with its own norms, as in Gemma 4.
#pragma once

#include "core/layers/experts.h"

namespace quire {

struct MlpAndExpertsLayer {
  MlpLayer dense;
  ExpertsLayer experts;
  NormLayer dense_post_norm;
  NormLayer experts_norm;
  NormLayer experts_post_norm;

  // Adds the result to the residual stream. Both parts read the residual stream; `block.input` is not used.
  void forward(const ForwardPass& pass, const Block& block) const;
};

void build(const MlpAndExpertsPart& part, LayerBuilder& builder, MlpAndExpertsLayer& layer);
void cut(MlpAndExpertsPart& part, const ShardCut& shard);
void needs(const MlpAndExpertsPart& part, Needs& all);
void each_weight(const MlpAndExpertsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const MlpAndExpertsPart& part);

}  // namespace quire
