#include "core/layers/embedding.h"

#include <cmath>

#include "core/layers/rows.h"

namespace quire {
namespace {

using kernels::Scratch;

// What a stream's root of the mean square is at least taken for.
constexpr float kLeastSquare = 1e-5f;

void embed(const ForwardPass& pass, const PreparedWeight& table, const int32_t* ids, float scale,
           float* target) {
  kernels::EmbedParams params;
  params.table = table.get();
  params.scale = scale;
  params.token_ids = ids;
  params.num_tokens = pass.num_tokens();
  params.hidden = target;
  pass.context.check(pass.context.table().embed(pass.context.handle(), &params), "embedding");
}

}  // namespace

float* stream_at(const ForwardPass& pass, Scratch where, int32_t index, int32_t hidden) {
  return pass.workspace.at(where) +
         static_cast<size_t>(index) * static_cast<size_t>(pass.num_tokens()) * static_cast<size_t>(hidden);
}

void LayerInputsLayer::forward(const ForwardPass& pass, int32_t hidden) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t columns = num_layers * norm.columns;
  float* inputs = space.at(Scratch::layer_input);
  float* projected = space.at(Scratch::other);
  embed(pass, table, pass.batch.token_ids, table_scale, inputs);
  multiply_rows(pass, projection, rounded_rows(pass, space.hidden, hidden), projected, pass.num_tokens());
  norm_rows_onto(pass, norm, projected, inputs, pass.num_tokens() * num_layers);
  scale_rows(pass, inputs, columns, sum_scale);
}

void EmbeddingLayer::forward(const ForwardPass& pass) const {
  const kernels::Workspace& space = pass.workspace;
  embed(pass, table, pass.batch.token_ids, scale, space.hidden);
  if (positions.get() != nullptr) {
    embed(pass, positions, pass.batch.positions, 1.0f, space.at(Scratch::projected));
    add_rows(pass, space.hidden, space.at(Scratch::projected), hidden);
  }
  if (norm) norm_rows_f32(pass, *norm, space.hidden, space.hidden, pass.num_tokens());
  if (layer_inputs) layer_inputs->forward(pass, hidden);
  for (size_t s = 0; s < stream_projections.size(); ++s) {
    float* stream = stream_at(pass, Scratch::streams, gsl::narrow<int32_t>(s), hidden);
    multiply_rows(pass, stream_projections[s], rounded_rows(pass, space.hidden, hidden), stream,
                  pass.num_tokens());
    kernels::RowOpParams match;
    match.op = kernels::RowOp::match_size;
    match.target = stream;
    match.a = space.hidden;
    match.columns = hidden;
    match.factor = std::sqrt(kLeastSquare);
    run_row_op(pass, match);
  }
}

void RotaryLayer::forward(const ForwardPass& pass, const RopeTables& tables) const {
  const bool is_short = short_inv_freq.bytes() != 0 && pass.max_context <= short_context;
  kernels::RopeAnglesParams params;
  params.inv_freq = (is_short ? short_inv_freq : inv_freq).as<float>();
  params.rotary_dim = rotary_dim;
  params.magnitude = is_short ? short_magnitude : magnitude;
  params.positions = pass.batch.positions;
  params.num_tokens = pass.batch.num_tokens;
  params.cos = tables.cos;
  params.sin = tables.sin;
  pass.context.check(pass.context.table().rope_angles(pass.context.handle(), &params), "rotary angles");
}

}  // namespace quire
