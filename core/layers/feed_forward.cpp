#include "core/layers/feed_forward.h"

#include "core/layers/rows.h"

namespace quire {

using kernels::Scratch;

void FeedForwardLayer::forward(const ForwardPass& pass, const void* input,
                               const kernels::Weight* next) const {
  if (experts) {
    forward_experts(pass, input);
  } else {
    forward_dense(pass, input, next);
  }
}

void FeedForwardLayer::forward_dense(const ForwardPass& pass, const void* input,
                                     const kernels::Weight* next) const {
  kernels::MlpBlockParams params;
  static_cast<kernels::MlpSpec&>(params) = static_cast<const kernels::MlpSpec&>(*dense);
  const kernels::NormParams of_result = post_norm ? post_norm->params() : kernels::NormParams();
  const kernels::NormParams within = dense->sub_norm ? dense->sub_norm->params() : kernels::NormParams();
  params.norm = norm.params();
  params.input = input;
  params.gate_up = dense->gate_up.get();
  params.down = dense->down.get();
  if (post_norm) params.post_norm = &of_result;
  if (dense->sub_norm) params.sub_norm = &within;
  params.activated = dense->activated.split();
  params.outputs = dense->outputs.split();
  params.num_tokens = pass.num_tokens();
  params.workspace = pass.workspace;
  params.next = next;
  pass.context.check(pass.context.table().mlp_block(pass.context.handle(), &params), "feed-forward");
}

void FeedForwardLayer::forward_experts(const ForwardPass& pass, const void* input) const {
  const kernels::Workspace& space = pass.workspace;
  const int32_t tokens = pass.num_tokens();
  const int32_t hidden = norm.columns;
  float* given = space.at(Scratch::projected);
  ExpertInput of_experts;
  if (dense) {
    of_experts.norm = &experts_norm;
  } else if (input != nullptr) {
    of_experts.rows = input;
  } else {
    of_experts.norm = &norm;
  }
  if (!dense && !post_norm && experts->can_add())
    return experts->add_to(pass, of_experts, space.hidden, hidden);
  experts->forward(pass, of_experts, given, hidden);
  if (dense) {
    norm_rows_f32(pass, experts_post_norm, given, given, tokens);
    norm_rows(pass, norm, space.hidden, space.normed, tokens);
    float* of_dense = space.at(Scratch::other);
    dense->write_to(pass, space.normed, of_dense);
    norm_rows_onto(pass, dense_post_norm, of_dense, given, tokens);
  }
  if (post_norm) return norm_rows_onto(pass, *post_norm, given, space.hidden, tokens);
  add_rows(pass, space.hidden, given, hidden);
}

}  // namespace quire
