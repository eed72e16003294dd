// Persimmon: q, k and v interleaved per head, layer norms of heads with biases, ungated squared ReLU.
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys persimmon_keys() {
  TensorKeys keys;
  keys.qkv = "self_attn.query_key_value";
  keys.attention_output = "self_attn.dense";
  keys.q_norm = "self_attn.q_layernorm";
  keys.k_norm = "self_attn.k_layernorm";
  keys.up = "mlp.dense_h_to_4h";
  keys.down = "mlp.dense_4h_to_h";
  keys.final_norm = "model.final_layernorm";
  return keys;
}

void persimmon(ModelReader& reader) {
  const bool has_norms = reader.flag("qk_layernorm", true);
  const int32_t dim = reader.heads().head_dim;
  const ColumnOrder order = order_of_blocks(reader.heads().num_heads, {dim, dim, dim});
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention().qkv.front().order = order;
    if (!has_norms) return;
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    ModelReader::bias_head_norms(layer);
  });
}

}  // namespace

const ArchitectureSpec kPersimmon = {.name = "PersimmonForCausalLM",
                                     .model_type = "persimmon",
                                     .keys = persimmon_keys(),
                                     .norm = kernels::NormKind::layer,
                                     .gated_mlp = false,
                                     .qkv_bias = kAlways,
                                     .attention_output_bias = kAlways,
                                     .mlp_bias = kAlways,
                                     .default_activation = "relu2",
                                     .default_norm_epsilon = 1e-5,
                                     .default_rope_theta = 25000.0,
                                     .default_partial_rotary = 0.5,
                                     .default_max_positions = 16384,
                                     .refine = persimmon};

}  // namespace quire::families
