#include "core/layers/head.h"

#include <cmath>

#include "core/layers/embedding.h"
#include "core/layers/rows.h"

namespace quire {

void HeadLayer::forward(const ForwardPass& pass) const {
  if (!stream_projections.empty()) join_streams(pass);
  kernels::HeadParams params;
  params.norm = norm.params();
  params.head = projection.get();
  params.logit_scale = logit_scale;
  params.softcap = softcap;
  params.vocab_size = vocab_size;
  params.vocabulary = vocabulary.split();
  params.batch = pass.batch;
  params.workspace = pass.workspace;
  pass.context.check(pass.context.table().head(pass.context.handle(), &params), "vocabulary projection");
}

// Their mean, after each was projected and given the size of the first.
void HeadLayer::join_streams(const ForwardPass& pass) const {
  constexpr float kLeastSquare = 1e-5f;
  const int32_t hidden = norm.columns;
  float* sum = pass.workspace.at(kernels::Scratch::other);
  float* given = pass.workspace.at(kernels::Scratch::projected);
  copy_rows(pass, sum, hidden, pass.workspace.hidden, hidden, hidden);
  for (size_t s = 0; s < stream_projections.size(); ++s) {
    float* stream = stream_at(pass, kernels::Scratch::streams, gsl::narrow<int32_t>(s), hidden);
    multiply_rows(pass, stream_projections[s], rounded_rows(pass, stream, hidden), given, pass.num_tokens());
    kernels::RowOpParams match;
    match.op = kernels::RowOp::match_size;
    match.target = given;
    match.a = pass.workspace.hidden;
    match.columns = hidden;
    match.factor = std::sqrt(kLeastSquare);
    run_row_op(pass, match);
    add_rows(pass, sum, given, hidden);
  }
  const auto num_streams = static_cast<float>(stream_projections.size() + 1);
  copy_rows(pass, pass.workspace.hidden, hidden, sum, hidden, hidden);
  scale_rows(pass, pass.workspace.hidden, hidden, 1.0f / num_streams);
}

}  // namespace quire
