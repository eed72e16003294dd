// AFMoE (Arcee Trinity): gated attention, norms before and after the blocks, and experts from layer
// num_dense_layers on.
#include <cmath>

#include "core/config/families/experts.h"
#include "core/config/families/gated.h"

namespace quire::families {
namespace {

constexpr TensorKeys afmoe_keys() {
  TensorKeys keys;
  keys.mlp_norm = "pre_mlp_layernorm";
  return keys;
}

ExpertsPart experts_part(ModelReader& reader, int32_t index) {
  ExpertsPart experts = routed(reader, index, {"mlp.router.gate", "mlp.experts.{}."});
  route_by_sigmoid(reader, experts, reader.key(index, "mlp.expert_bias"));
  experts.scale = reader.number_or("route_scale", 1.0, 1e-6, 1e6);
  const int32_t shared = reader.int_or("num_shared_experts", 2, 0, 1024);
  add_shared(reader, index, "mlp.shared_experts.", shared * expert_width(reader), experts);
  return experts;
}

// Layers with full attention have no RoPE.
void afmoe(ModelReader& reader) {
  if (reader.flag("mup_enabled"))
    reader.model().embedding.scale = std::sqrt(static_cast<float>(reader.hidden()));
  const int32_t num_dense = reader.int_or("num_dense_layers", 1, 0, 1024);
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.attention_post_norm = reader.layer_norm(i, "post_attention_layernorm");
    layer.feed_forward_post_norm = reader.layer_norm(i, "post_mlp_layernorm");
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    if (reader.layer_type(i) != LayerType::sliding) ModelReader::drop_rope(layer);
    gate_attention(reader, layer, i);
    if (i >= num_dense) ModelReader::set_experts(layer, experts_part(reader, i));
  });
}

}  // namespace

const ArchitectureSpec kAfmoe = {.name = "AfmoeForCausalLM",
                                 .model_type = "afmoe",
                                 .keys = afmoe_keys(),
                                 .qkv_bias = by_flag("attention_bias"),
                                 .attention_output_bias = by_flag("attention_bias"),
                                 .window = WindowRule::by_layer_type,
                                 .window_pattern = 4,
                                 .default_norm_epsilon = 1e-5,
                                 .default_max_positions = 16384,
                                 .default_sliding_window = 1024,
                                 .default_head_dim = 128,
                                 .refine = afmoe};

}  // namespace quire::families
