#include "core/layers/streams.h"

#include <array>
#include <cmath>

#include "core/layers/layer_builder.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void build(const StreamsPart& part, LayerBuilder& builder, StreamsLayer& layer) {
  layer.num_streams = builder.model().num_streams;
  build(part.router_norm, builder, layer.router_norm);
  layer.output_scale = builder.vector(part.output_scale);
  builder.request(layer.router, {part.router});
  builder.request(layer.prediction, {part.prediction});
  builder.request(layer.correction, {part.correction});
}

void need_streams(const ModelSpec& model, Needs& all) {
  const int32_t hidden = all.hidden(), num_streams = model.num_streams;
  if (model.connects_streams) return all.scratch(Scratch::streams, num_streams * hidden);
  if (model.keeps_embedding) all.scratch(Scratch::streams, hidden);
  if (num_streams < 2) return;
  for (const Scratch kind : {Scratch::rounded, Scratch::other, Scratch::projected}) all.scratch(kind, hidden);
  all.scratch(Scratch::streams, (num_streams - 1) * hidden);
  all.scratch(Scratch::more_streams, num_streams * hidden);
  all.scratch(Scratch::router, num_streams);
  all.scratch(Scratch::weights, num_streams * num_streams);
}

void each_weight(const StreamsLayer& layer, WeightVisitor& visitor) {
  for (const PreparedWeight* matrix : {&layer.router, &layer.prediction, &layer.correction})
    visitor.matrix(*matrix, 1.0);
  each_weight(layer.router_norm, visitor);
  visitor.vector(layer.output_scale);
}

uint64_t mechanisms(const StreamsPart&) {
  return kernels::kMechanismStreams;
}

float* stream_at(const ForwardPass& pass, Scratch place, int32_t index, int32_t hidden) {
  return pass.workspace.at(place) +
         static_cast<size_t>(index) * static_cast<size_t>(pass.num_tokens()) * static_cast<size_t>(hidden);
}

void match_size(const ForwardPass& pass, float* target, int32_t hidden) {
  constexpr float kMinMeanSquare = 1e-5f;  // lower bound of the mean square of a row
  kernels::RowOpParams match;
  match.op = kernels::RowOp::match_size;
  match.target = target;
  match.a = pass.workspace.hidden;
  match.columns = hidden;
  match.factor = std::sqrt(kMinMeanSquare);
  run_row_op(pass, match);
}

void StreamsLayer::route(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  norm_rows(pass, router_norm, space.hidden, space.at(Scratch::other), pass.num_tokens());
  multiply_rows(pass, router, space.at(Scratch::other), space.at(Scratch::router), pass.num_tokens());
  kernels::RowOpParams bend;
  bend.op = kernels::RowOp::tanh_rows;
  bend.target = space.at(Scratch::router);
  bend.columns = num_streams;
  run_row_op(pass, bend);
}

void StreamsLayer::predict(const ForwardPass& pass) const {
  constexpr size_t kMostStreams = 16;
  const kernels::Workspace& space = pass.workspace;
  const int32_t hidden = router_norm.columns;
  route(pass);
  multiply_rows(pass, prediction, rounded_rows(pass, space.at(Scratch::router), num_streams),
                space.at(Scratch::weights), pass.num_tokens());
  std::array<const float*, kMostStreams> streams = {space.hidden};
  std::array<float*, kMostStreams> targets = {};
  for (int32_t s = 0; s < num_streams; ++s) {
    if (s > 0) streams[static_cast<size_t>(s)] = stream_at(pass, Scratch::streams, s - 1, hidden);
    targets[static_cast<size_t>(s)] = stream_at(pass, Scratch::more_streams, s, hidden);
  }
  kernels::MixStreamsParams params;
  params.streams = streams.data();
  params.targets = targets.data();
  params.coefficients = space.at(Scratch::weights);
  params.num_streams = num_streams;
  params.tokens = pass.num_tokens();
  params.columns = hidden;
  pass.context.check(pass.context.table().mix_streams(pass.context.handle(), &params), "residual streams");
  copy_rows(pass, space.hidden, hidden, targets[0], hidden, hidden);
}

void StreamsLayer::correct(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t hidden = router_norm.columns;
  route(pass);
  multiply_rows(pass, correction, rounded_rows(pass, space.at(Scratch::router), num_streams),
                space.at(Scratch::weights), pass.num_tokens());
  float* innovation = space.at(Scratch::other);
  copy_rows(pass, innovation, hidden, space.hidden, hidden, hidden);
  add_rows(pass, innovation, stream_at(pass, Scratch::more_streams, 0, hidden), hidden, -1.0f);
  for (int32_t s = 0; s < num_streams; ++s) {
    float* stream = s == 0 ? space.hidden : stream_at(pass, Scratch::streams, s - 1, hidden);
    copy_rows(pass, stream, hidden, stream_at(pass, Scratch::more_streams, s, hidden), hidden, hidden);
    add_rows(pass, stream, innovation, hidden);
    kernels::RowOpParams weighted;
    weighted.op = kernels::RowOp::add_by_row;
    weighted.target = stream;
    weighted.a = innovation;
    weighted.b = space.at(Scratch::weights) + s;
    weighted.b_stride = num_streams;
    weighted.columns = hidden;
    run_row_op(pass, weighted);
  }
}

}  // namespace quire
