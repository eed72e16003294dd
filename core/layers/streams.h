// AltUp of Gemma 3n: several residual streams. All streams are predicted before the blocks. The blocks
// process the first stream, and then all are corrected.
#pragma once

#include "core/layers/block.h"
#include "core/layers/needs.h"

namespace quire {

// Between layers the first stream is in workspace.hidden, the others are in Scratch::streams.
struct StreamsLayer {
  PreparedWeight router;
  NormLayer router_norm;
  PreparedWeight prediction;
  PreparedWeight correction;
  DeviceBuffer output_scale;  // scales the first stream for LayerInputLayer; empty: none
  int32_t num_streams = 0;

  // Writes the predicted streams to Scratch::more_streams, and the first of them to workspace.hidden.
  void predict(const ForwardPass& pass) const;
  // Corrects all streams by the difference between workspace.hidden and its prediction.
  void correct(const ForwardPass& pass) const;

 private:
  // Writes tanh(router(norm(hidden))) to Scratch::router.
  void route(const ForwardPass& pass) const;
};

// Returns stream `index` of Scratch::streams, which has all streams except the first, or of
// Scratch::more_streams, which has all.
float* stream_at(const ForwardPass& pass, kernels::Scratch place, int32_t index, int32_t hidden);

// Scales each row of `target` to the root mean square of the same row of workspace.hidden.
void match_size(const ForwardPass& pass, float* target, int32_t hidden);

void build(const StreamsPart& part, LayerBuilder& builder, StreamsLayer& layer);
// Requires the scratch memory of several residual streams, in the layers, the embedding and the head.
void need_streams(const ModelSpec& model, Needs& all);
void each_weight(const StreamsLayer& layer, WeightVisitor& visitor);
uint64_t mechanisms(const StreamsPart& part);

}  // namespace quire
