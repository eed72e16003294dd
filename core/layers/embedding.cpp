#include "core/layers/embedding.h"

namespace quire {

void EmbeddingLayer::forward(const ForwardPass& pass) const {
  kernels::EmbedParams params;
  params.table = table.get();
  params.scale = scale;
  params.token_ids = pass.batch.token_ids;
  params.num_tokens = pass.batch.num_tokens;
  params.hidden = pass.workspace.hidden;
  pass.context.check(pass.context.table().embed(pass.context.handle(), &params), "embedding");
}

void RotaryLayer::forward(const ForwardPass& pass) const {
  if (rotary_dim == 0) return;
  kernels::RopeAnglesParams params;
  params.inv_freq = inv_freq.as<float>();
  params.rotary_dim = rotary_dim;
  params.magnitude = magnitude;
  params.positions = pass.batch.positions;
  params.num_tokens = pass.batch.num_tokens;
  params.cos = pass.workspace.rope_cos;
  params.sin = pass.workspace.rope_sin;
  pass.context.check(pass.context.table().rope_angles(pass.context.handle(), &params), "rotary angles");
}

}  // namespace quire
