// Several residual streams, of which the blocks see one: the others are predicted before them and corrected
// after them, as in Gemma 3n.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

// Between layers the first stream lies in workspace.hidden, the others in Scratch::streams.
struct StreamsLayer {
  PreparedWeight router;
  NormLayer router_norm;
  PreparedWeight prediction;
  PreparedWeight correction;
  DeviceBuffer output_scale;  // scale of the first stream as the layer's own embedding reads it; empty: none
  int32_t num_streams = 0;

  // Writes the predictions to Scratch::more_streams, and the first of them to workspace.hidden.
  void predict(const ForwardPass& pass) const;
  // Corrects all streams by what the blocks have made of workspace.hidden.
  void correct(const ForwardPass& pass) const;

 private:
  // Leaves tanh(router(norm(hidden))) in Scratch::router.
  void route(const ForwardPass& pass) const;
};

// Returns stream `index` of Scratch::streams, which are those beside the first, or of Scratch::more_streams.
float* stream_at(const ForwardPass& pass, kernels::Scratch place, int32_t index, int32_t hidden);

// Multiplies the rows of `target` so that their root of the mean square is that of workspace.hidden.
void match_size(const ForwardPass& pass, float* target, int32_t hidden);

void build(const StreamsPart& part, LayerBuilder& builder, StreamsLayer& layer);
// Scratch memory of a model with so many streams, for its layers and its ends.
void need_streams(int32_t num_streams, Needs& all);
void each_weight(const StreamsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const StreamsPart& part);

}  // namespace quire
