#include "core/layers/head.h"

namespace quire {

void HeadLayer::forward(const ForwardPass& pass) const {
  kernels::HeadParams params;
  params.norm = norm.params();
  params.head = projection.get();
  params.logit_scale = logit_scale;
  params.softcap = softcap;
  params.vocab_size = vocab_size;
  params.batch = pass.batch;
  params.workspace = pass.workspace;
  pass.context.check(pass.context.table().head(pass.context.handle(), &params), "vocabulary projection");
}

}  // namespace quire
