// The attention half of a decoder layer.
#pragma once

#include "core/layers/forward_pass.h"
#include "core/layers/norm.h"

namespace quire {

// hidden += o(attention(rope(qkv(norm(hidden))))).
struct AttentionLayer {
  NormLayer norm;
  PreparedWeight qkv;  // parts q, k, v
  PreparedWeight output;
  kernels::HeadShape heads;
  DeviceBuffer q_norm;  // [head_dim] f32, or empty
  DeviceBuffer k_norm;
  kernels::RopeStyle rope = kernels::RopeStyle::neox_halves;
  int32_t rotary_dim = 0;
  float scale = 0.0f;          // of q.k
  float softcap = 0.0f;        // 0: off
  int32_t sliding_window = 0;  // 0: all positions

  // `next` is the matrix that the following block reads first, or nullptr.
  void forward(const ForwardPass& pass, const kernels::KvLayer& kv, const kernels::Weight* next) const;
};

}  // namespace quire
