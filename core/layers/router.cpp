#include "core/layers/router.h"

namespace quire {

using kernels::Scratch;

void needs(const kernels::RouterSpec& spec, Needs& all) {
  all.scratch(Scratch::router, spec.num_experts);
  all.scratch(Scratch::chosen, spec.num_chosen);
  all.scratch(Scratch::weights, spec.num_chosen);
  all.scratch(Scratch::expert_out, spec.num_chosen * all.hidden());
  all.scratch(Scratch::projected, all.hidden());
}

void RouterLayer::forward(const ForwardPass& pass, const ExpertInput& input) const {
  kernels::ExpertChoiceParams params;
  static_cast<kernels::RouterSpec&>(params) = static_cast<const kernels::RouterSpec&>(*this);
  params.input = input.rows;
  if (input.norm != nullptr) params.norm = input.norm->params();
  params.router = matrix.get();
  params.choice_bias = choice_bias.as<float>();
  params.expert_scale = expert_scale.as<float>();
  params.num_tokens = pass.num_tokens();
  params.workspace = pass.workspace;
  pass.context.check(pass.context.table().choose_experts(pass.context.handle(), &params), "choosing experts");
}

}  // namespace quire
