// StableLM: layer norms and partial RoPE (a quarter of each head). If the blocks are parallel, they share one
// norm. StableLM 2 12B has a norm for each head, in a tensor of its own.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys stablelm_keys() {
  TensorKeys keys;
  keys.q_norm = "self_attn.q_layernorm.norms.{}";
  keys.k_norm = "self_attn.k_layernorm.norms.{}";
  return keys;
}

void norm_heads(ModelReader& reader, LayerSpec& layer, int32_t index) {
  reader.norm_heads(layer, index, kernels::QkNorm::each_head);
  AttentionPart& part = layer.attention();
  part.qk_weight_per_head = true;
  part.q_norm.count = query_columns(part);
  part.q_norm.num_tensors = part.heads.num_heads;
  part.k_norm.count = key_columns(part);
  part.k_norm.num_tensors = part.heads.num_kv_heads;
}

void stablelm(ModelReader& reader) {
  if (reader.flag("qk_layernorm"))
    reader.each_layer([&](LayerSpec& layer, int32_t i) { norm_heads(reader, layer, i); });
  if (!reader.flag("use_parallel_residual")) return;
  reader.each_layer([](LayerSpec& layer, int32_t) { layer.parallel = layer.shares_norm = true; });
}

}  // namespace

const ArchitectureSpec kStableLm = {.name = "StableLmForCausalLM",
                                    .model_type = "stablelm",
                                    .keys = stablelm_keys(),
                                    .norm = kernels::NormKind::layer,
                                    .qkv_bias = by_flag("use_qkv_bias"),
                                    .default_norm_epsilon = 1e-5,
                                    .default_partial_rotary = 0.25,
                                    .default_max_positions = 4096,
                                    .refine = stablelm};

}  // namespace quire::families
