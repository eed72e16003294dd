// A short convolution as the mixer of a layer (LFM2).
#pragma once

#include "core/layers/state_mixer.h"

namespace quire {

// hidden += out(C * conv(B * x)), with B, C and x from one matrix.
struct ShortConvLayer {
  PreparedWeight in;
  ConvLayer conv;
  ResultLayer out;

  void forward(const ForwardPass& pass, const LayerCache& cache, const Block& block) const;
};

void build(const ShortConvPart& part, LayerBuilder& builder, ShortConvLayer& layer);
void needs(const ShortConvPart& part, Needs& all);
void each_weight(const ShortConvLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const ShortConvPart& part);

}  // namespace quire
