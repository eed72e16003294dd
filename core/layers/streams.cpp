#include "core/layers/streams.h"

#include <array>

#include "core/layers/embedding.h"
#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void LaurelLayer::forward(const ForwardPass& pass, const void* normed) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  float* out = space.at(Scratch::row);
  void* low = space.at(Scratch::low_rank);
  multiply_rows_to_activations(pass, left, normed, low);
  multiply_rows(pass, right, low, space.at(Scratch::projected), tokens);
  kernels::RowOpParams copy;
  copy.op = kernels::RowOp::copy;
  copy.target = out;
  copy.a = normed;
  copy.a_is_activation = true;
  copy.columns = norm.columns;
  run_row_op(pass, copy);
  norm_rows_onto(pass, norm, space.at(Scratch::projected), out, tokens);
}

// tanh(router(norm(hidden))) into Scratch::router.
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

void LayerInputLayer::forward(const ForwardPass& pass, float* rows) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  void* gated = space.at(Scratch::low_rank);
  multiply_rows_to_activations(pass, gate, rounded_rows(pass, rows, norm.columns), gated);
  kernels::ActivationParams act;
  act.activation = activation;
  act.gated = false;
  act.intermediate = columns;
  act.input = gated;
  act.rows = tokens;
  act.output = gated;
  pass.context.check(pass.context.table().activation(pass.context.handle(), &act), "embeddings of layers");
  kernels::RowOpParams multiply;
  multiply.op = kernels::RowOp::multiply;
  multiply.target = gated;
  multiply.target_is_activation = true;
  multiply.a = space.at(Scratch::layer_input) + static_cast<size_t>(layer_idx) * static_cast<size_t>(columns);
  multiply.a_stride = columns * num_layers;
  multiply.columns = columns;
  run_row_op(pass, multiply);
  float* given = space.at(Scratch::projected);
  multiply_rows(pass, projection, gated, given, tokens);
  norm_rows_f32(pass, norm, given, given, tokens);
}

}  // namespace quire
