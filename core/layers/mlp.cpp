#include "core/layers/mlp.h"

namespace quire {

void MlpLayer::forward(const ForwardPass& pass, const kernels::Weight* next) const {
  kernels::MlpBlockParams params;
  params.norm = norm.params();
  params.gate_up = gate_up.get();
  params.down = down.get();
  params.activation = activation;
  params.gated = gated;
  params.intermediate = intermediate;
  params.num_tokens = pass.batch.num_tokens;
  params.workspace = pass.workspace;
  params.next = next;
  const DeviceContext& context = pass.context;
  context.check(context.table().mlp_block(context.handle(), &params), "feed-forward");
}

}  // namespace quire
