// Phi 1 to 3.5, including Phi MoE.
#include "core/config/families/experts.h"
#include "core/config/families/families.h"

namespace quire::families {
namespace {

constexpr TensorKeys phi_keys() {
  TensorKeys keys;
  keys.attention_output = "self_attn.dense";
  keys.mlp_norm = "input_layernorm";
  keys.up = "mlp.fc1";
  keys.down = "mlp.fc2";
  keys.q_norm = "self_attn.q_layernorm";
  keys.k_norm = "self_attn.k_layernorm";
  keys.final_norm = "model.final_layernorm";
  return keys;
}

// Parallel attention and MLP share one norm.
void phi(ModelReader& reader) {
  reader.model().head.projection.bias = BiasRule::required;
  const bool has_norms = reader.flag("qk_layernorm");
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    layer.parallel = layer.shares_norm = true;
    if (!has_norms) return;
    reader.norm_heads(layer, i, kernels::QkNorm::each_head);
    ModelReader::bias_head_norms(layer);
  });
}

constexpr TensorKeys phi3_keys() {
  TensorKeys keys;
  keys.qkv = "self_attn.qkv_proj";
  keys.gate_up = "mlp.gate_up_proj";
  return keys;
}

void phi_moe(ModelReader& reader) {
  if (reader.flag("lm_head_bias")) reader.model().head.projection.bias = BiasRule::required;
  reader.each_layer([&](LayerSpec& layer, int32_t i) {
    ExpertsPart experts = routed(reader, i, {"block_sparse_moe.gate", "block_sparse_moe.experts.{}.", true});
    experts.score = kernels::RouterScore::sparse_mixer;
    experts.jitter = reader.number_or("router_jitter_noise", 0.01, 0.0, 1.0);
    ModelReader::set_experts(layer, std::move(experts));
  });
}

}  // namespace

const ArchitectureSpec kPhi = {.name = "PhiForCausalLM",
                               .model_type = "phi",
                               .keys = phi_keys(),
                               .norm = kernels::NormKind::layer,
                               .gated_mlp = false,
                               .qkv_bias = kAlways,
                               .attention_output_bias = kAlways,
                               .mlp_bias = kAlways,
                               .default_activation = "gelu_new",
                               .default_norm_epsilon = 1e-5,
                               .default_partial_rotary = 0.5,
                               .refine = phi};

const ArchitectureSpec kPhi3 = {.name = "Phi3ForCausalLM",
                                .model_type = "phi3",
                                .keys = phi3_keys(),
                                .window = WindowRule::every_layer,
                                .default_norm_epsilon = 1e-5,
                                .default_max_positions = 4096};

const ArchitectureSpec kPhiMoe = {.name = "PhimoeForCausalLM",
                                  .model_type = "phimoe",
                                  .norm = kernels::NormKind::layer,
                                  .qkv_bias = by_flag("attention_bias"),
                                  .attention_output_bias = by_flag("attention_bias"),
                                  .window = WindowRule::every_layer,
                                  .default_norm_epsilon = 1e-5,
                                  .default_rope_theta = 1000000.0,
                                  .default_max_positions = 131072,
                                  .refine = phi_moe};

}  // namespace quire::families
