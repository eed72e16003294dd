// InternLM 2: one QKV matrix, grouped by KV head.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys internlm2_keys() {
  TensorKeys keys;
  keys.embedding = "model.tok_embeddings";
  keys.attention_norm = "attention_norm";
  keys.qkv = "attention.wqkv";
  keys.attention_output = "attention.wo";
  keys.mlp_norm = "ffn_norm";
  keys.gate = "feed_forward.w1";
  keys.up = "feed_forward.w3";
  keys.down = "feed_forward.w2";
  keys.head = "output";
  return keys;
}

void internlm2(ModelReader& reader) {
  const kernels::HeadShape& heads = reader.heads();
  const int32_t dim = heads.head_dim;
  const int32_t of_queries = heads.num_heads / heads.num_kv_heads * dim;
  const ColumnOrder order = order_of_blocks(heads.num_kv_heads, {of_queries, dim, dim});
  reader.each_layer([&](LayerSpec& layer, int32_t) { layer.attention().qkv.front().order = order; });
}

}  // namespace

const ArchitectureSpec kInternLm2 = {.name = "InternLM2ForCausalLM",
                                     .model_type = "internlm2",
                                     .keys = internlm2_keys(),
                                     .qkv_bias = by_flag("bias"),
                                     .attention_output_bias = by_flag("bias"),
                                     .default_norm_epsilon = 1e-6,
                                     .default_max_positions = 2048,
                                     .refine = internlm2};

}  // namespace quire::families
