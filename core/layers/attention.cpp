#include "core/layers/attention.h"

namespace quire {

void AttentionLayer::forward(const ForwardPass& pass, const kernels::KvLayer& kv,
                             const kernels::Weight* next) const {
  kernels::AttentionBlockParams params;
  params.norm = norm.params();
  params.qkv = qkv.get();
  params.output = output.get();
  params.heads = heads;
  params.q_norm = q_norm.as<float>();
  params.k_norm = k_norm.as<float>();
  params.qk_norm_epsilon = norm.epsilon;
  params.rope = rope;
  params.rotary_dim = rotary_dim;
  params.scale = scale;
  params.softcap = softcap;
  params.sliding_window = sliding_window;
  params.batch = pass.batch;
  params.kv_shape = pass.kv_shape;
  params.kv = kv;
  params.workspace = pass.workspace;
  params.next = next;
  const DeviceContext& context = pass.context;
  context.check(context.table().attention_block(context.handle(), &params), "attention");
}

}  // namespace quire
