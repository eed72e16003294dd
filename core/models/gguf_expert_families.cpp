// GGUF architectures with experts whose classes name them otherwise than most.
#include <array>

#include "core/models/gguf_family_rows.h"

namespace quire {
namespace {

constexpr auto kGraniteMoeParts = std::to_array<GgufPart>({
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.gate_proj"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.up_proj"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.down_proj"},
    {"ffn_gate_shexp", "shared_mlp.gate_proj"},
    {"ffn_up_shexp", "shared_mlp.up_proj"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
});

// The names of Mixtral, and the bias of MiniMax M2 for choosing experts.
constexpr auto kMixtralNames = std::to_array<GgufPart>({
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b", "block_sparse_moe.e_score_correction_bias", true},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
});

constexpr auto kHunyuanMoeParts = std::to_array<GgufPart>({
    {"ffn_gate_inp", "mlp.gate.wg"},
    {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
    {"ffn_down_shexp", "mlp.shared_mlp.down_proj"},
});

constexpr auto kAfmoeParts = std::to_array<GgufPart>({
    {"attn_gate", "self_attn.gate_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
    {"ffn_gate_inp", "mlp.router.gate"},
    {"exp_probs_b", "mlp.expert_bias", true},
});

constexpr auto kErnieMoeParts =
    std::to_array<GgufPart>({{"exp_probs_b", "mlp.moe_statics.e_score_correction_bias", true}});
constexpr auto kExaoneMoeParts =
    std::to_array<GgufPart>({{"exp_probs_b", "mlp.e_score_correction_bias", true}});

void granite_moe(const GgufModel& model, JsonObject& config) {
  granite_multipliers(model, config);
  config.add("stacked_experts", false);
  config.add("shared_intermediate_size", model.integer("expert_shared_feed_forward_length").value_or(0));
}

void minimax_m2(const GgufModel& model, JsonObject& config) {
  if (const auto rotary = model.integer("rope.dimension_count")) config.add("rotary_dim", *rotary);
}

void phi_moe(const GgufModel& model, JsonObject& config) {
  config.add("lm_head_bias", model.has("output.bias"));
}

// llama.cpp multiplies the embedding in every model of this class.
void afmoe(const GgufModel& model, JsonObject& config) {
  config.add("mup_enabled", true);
  config.add("num_dense_layers", model.integer("leading_dense_block_count").value_or(0));
  config.add("num_shared_experts", model.integer("expert_shared_count").value_or(0));
  config.add("route_scale", model.number("expert_weights_scale").value_or(1.0));
}

void ernie_moe(const GgufModel& model, JsonObject& config) {
  config.add("moe_layer_interval", model.integer("interleave_moe_layer_step").value_or(1));
  config.add("moe_layer_start_index", model.integer("leading_dense_block_count").value_or(0));
  config.add("moe_num_shared_experts", model.integer("expert_shared_count").value_or(0));
}

void exaone_moe(const GgufModel& model, JsonObject& config) {
  config.add("num_shared_experts", model.integer("expert_shared_count").value_or(0));
}

constexpr auto kExpertRows = std::to_array<GgufFamily>({
    {.architecture = "granitemoe",
     .class_name = "GraniteMoeSharedForCausalLM",
     .parts = kGraniteMoeParts,
     .has_rotary_pairs = true,
     .configure = granite_moe},
    {.architecture = "minimax-m2",
     .class_name = "MiniMaxM2ForCausalLM",
     .parts = kMixtralNames,
     .configure = minimax_m2},
    {.architecture = "phimoe",
     .class_name = "PhimoeForCausalLM",
     .parts = kMixtralNames,
     .configure = phi_moe},
    {.architecture = "hunyuan-moe", .class_name = "HunYuanMoEV1ForCausalLM", .parts = kHunyuanMoeParts},
    {.architecture = "afmoe", .class_name = "AfmoeForCausalLM", .parts = kAfmoeParts, .configure = afmoe},
    {.architecture = "ernie4_5-moe",
     .class_name = "Ernie4_5_MoeForCausalLM",
     .parts = kErnieMoeParts,
     .has_rotary_pairs = true,
     .configure = ernie_moe},
    {.architecture = "exaone-moe",
     .class_name = "ExaoneMoeForCausalLM",
     .parts = kExaoneMoeParts,
     .configure = exaone_moe},
});

}  // namespace

gsl::span<const GgufFamily> expert_gguf_families() {
  return kExpertRows;
}

}  // namespace quire
