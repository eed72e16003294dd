// GGUF architectures whose layers may have a recurrent state.
#include <array>

#include "core/base/error.h"
#include "core/models/gguf_family_rows.h"

namespace quire {
namespace {

bool routes_to_experts(const GgufModel& model) {
  return model.integer("expert_count").value_or(0) > 0;
}

// Returns a field of the recurrent layers.
int64_t required_size(const GgufModel& model, std::string_view field) {
  const int64_t size = model.require_integer(field);
  if (size > 0 && size <= INT32_MAX) return size;
  throw Error(ErrorCode::format, "{}: \"{}\" is {}, not 1 to {}", model.path(), model.key(field), size,
              INT32_MAX);
}

// Returns how often `part` is in `whole`.
int64_t quotient(const GgufModel& model, std::string_view whole, std::string_view part) {
  const int64_t all = required_size(model, whole), one = required_size(model, part);
  if (all % one == 0) return all / one;
  throw Error(ErrorCode::format, "{}: \"{}\" is {}, no multiple of \"{}\" {}", model.path(), model.key(whole),
              all, model.key(part), one);
}

bool has_in_any_layer(const GgufModel& model, std::string_view tensor) {
  for (int32_t layer = 0; layer < model.num_layers(); ++layer)
    if (model.has(fmt::format("blk.{}.{}", layer, tensor))) return true;
  return false;
}

constexpr auto kMambaParts = std::to_array<GgufPart>({
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_x", "mixer.x_proj"},
    {"ssm_dt", "mixer.dt_proj"},
    {"ssm_a", "mixer.A_log", true, true},
    {"ssm_d", "mixer.D", true},
    {"ssm_out", "mixer.out_proj"},
});

constexpr auto kMamba2Parts = std::to_array<GgufPart>({
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt", "mixer.dt_bias", true},
    {"ssm_a", "mixer.A_log", true, true},
    {"ssm_d", "mixer.D", true},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
});

// Mamba 2 beside attention, an MLP and experts, under the names of Falcon-H1 and Granite.
constexpr auto kFalconH1Parts = std::to_array<GgufPart>({
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt", "mamba.dt_bias", true},
    {"ssm_a", "mamba.A_log", true, true},
    {"ssm_d", "mamba.D", true},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
});

constexpr auto kGraniteHybridParts = std::to_array<GgufPart>({
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt", "mamba.dt_bias", true},
    {"ssm_a", "mamba.A_log", true, true},
    {"ssm_d", "mamba.D", true},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
    {"ffn_gate", "shared_mlp.gate_proj"},
    {"ffn_up", "shared_mlp.up_proj"},
    {"ffn_down", "shared_mlp.output_linear"},
    {"ffn_gate_shexp", "shared_mlp.gate_proj"},
    {"ffn_up_shexp", "shared_mlp.up_proj"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.gate_proj"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.up_proj"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.down_proj"},
});

constexpr auto kNemotronParts = std::to_array<GgufPart>({
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt", "mixer.dt_bias", true},
    {"ssm_a", "mixer.A_log", true, true},
    {"ssm_d", "mixer.D", true},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
    {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},
    {"ffn_gate_inp", "mixer.gate"},
    {"exp_probs_b", "mixer.gate.e_score_correction_bias", true},
    {"ffn_up_exps", "mixer.experts.{}.up_proj"},
    {"ffn_down_exps", "mixer.experts.{}.down_proj"},
    {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
    {"ffn_down_shexp", "mixer.shared_experts.down_proj"},
    {"ffn_latent_down", "mixer.fc1_latent_proj"},
    {"ffn_latent_up", "mixer.fc2_latent_proj"},
});

constexpr auto kJambaParts = std::to_array<GgufPart>({
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_x", "mamba.x_proj"},
    {"ssm_dt", "mamba.dt_proj"},
    {"ssm_a", "mamba.A_log", true, true},
    {"ssm_d", "mamba.D", true},
    {"ssm_dt_norm", "mamba.dt_layernorm"},
    {"ssm_b_norm", "mamba.b_layernorm"},
    {"ssm_c_norm", "mamba.c_layernorm"},
    {"ssm_out", "mamba.out_proj"},
    {"ffn_gate_inp", "feed_forward.router"},
    {"ffn_gate_exps", "feed_forward.experts.{}.gate_proj"},
    {"ffn_up_exps", "feed_forward.experts.{}.up_proj"},
    {"ffn_down_exps", "feed_forward.experts.{}.down_proj"},
});

constexpr auto kLfm2Parts = std::to_array<GgufPart>({
    {"token_embd_norm", "model.embedding_norm"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"ffn_gate_inp", "feed_forward.gate"},
    {"exp_probs_b", "feed_forward.expert_bias", true},
    {"ffn_gate_exps", "feed_forward.experts.{}.w1"},
    {"ffn_up_exps", "feed_forward.experts.{}.w3"},
    {"ffn_down_exps", "feed_forward.experts.{}.w2"},
});

constexpr auto kQwenParts = std::to_array<GgufPart>({
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_in", "linear_attn.in_proj_qkvz"},
    {"ssm_ba", "linear_attn.in_proj_ba"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_dt", "linear_attn.dt_bias", true},
    {"ssm_a", "linear_attn.A_log", true, true},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
});

constexpr auto kKimiParts = std::to_array<GgufPart>({
    {"ssm_conv1d_q", "self_attn.q_conv1d"},
    {"ssm_conv1d_k", "self_attn.k_conv1d"},
    {"ssm_conv1d_v", "self_attn.v_conv1d"},
    {"ssm_f_a", "self_attn.f_a_proj"},
    {"ssm_f_b", "self_attn.f_b_proj"},
    {"ssm_g_a", "self_attn.g_a_proj"},
    {"ssm_g_b", "self_attn.g_b_proj"},
    {"ssm_beta", "self_attn.b_proj"},
    {"ssm_dt", "self_attn.dt_bias", true},
    {"ssm_a", "self_attn.A_log", true, true},
    {"ssm_norm", "self_attn.o_norm"},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b", "block_sparse_moe.gate.e_score_correction_bias", true},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
    {"ffn_gate_shexp", "block_sparse_moe.shared_experts.gate_proj"},
    {"ffn_up_shexp", "block_sparse_moe.shared_experts.up_proj"},
    {"ffn_down_shexp", "block_sparse_moe.shared_experts.down_proj"},
});

// Fields of Mamba 1 by the names that the class has for them.
void mamba_sizes(const GgufModel& model, std::string_view prefix, std::string_view taps,
                 std::string_view rank, JsonObject& config) {
  const std::string before(prefix);
  config.add(before + (prefix.empty() ? "state_size" : "d_state"), required_size(model, "ssm.state_size"));
  config.add(taps, required_size(model, "ssm.conv_kernel"));
  config.add(rank, required_size(model, "ssm.time_step_rank"));
  config.add(before + "expand", quotient(model, "ssm.inner_size", "embedding_length"));
}

bool norms_selection(const GgufModel& model) {
  return model.flag("ssm.dt_b_c_rms").value_or(false);
}

void mamba(const GgufModel& model, JsonObject& config) {
  mamba_sizes(model, "", "conv_kernel", "time_step_rank", config);
  config.add("use_conv_bias", has_in_any_layer(model, "ssm_conv1d.bias"));
}

// Fields of Mamba 2 in classes whose layers are all of this kind, and in Nemotron-H.
void mamba2(const GgufModel& model, JsonObject& config) {
  config.add("state_size", required_size(model, "ssm.state_size"));
  config.add("conv_kernel", required_size(model, "ssm.conv_kernel"));
  config.add("num_heads", required_size(model, "ssm.time_step_rank"));
  config.add("head_dim", quotient(model, "ssm.inner_size", "ssm.time_step_rank"));
  config.add("n_groups", required_size(model, "ssm.group_count"));
  config.add("expand", quotient(model, "ssm.inner_size", "embedding_length"));
  config.add("use_conv_bias", has_in_any_layer(model, "ssm_conv1d.bias"));
}

void mamba2_beside_attention(const GgufModel& model, JsonObject& config) {
  config.add("mamba_d_state", required_size(model, "ssm.state_size"));
  config.add("mamba_d_conv", required_size(model, "ssm.conv_kernel"));
  config.add("mamba_n_heads", required_size(model, "ssm.time_step_rank"));
  config.add("mamba_d_head", quotient(model, "ssm.inner_size", "ssm.time_step_rank"));
  config.add("mamba_n_groups", required_size(model, "ssm.group_count"));
  config.add("mamba_conv_bias", has_in_any_layer(model, "ssm_conv1d.bias"));
  config.add("mamba_proj_bias", has_in_any_layer(model, "ssm_in.bias"));
}

// The multipliers are in the weights of files.
void falcon_h1(const GgufModel& model, JsonObject& config) {
  mamba2_beside_attention(model, config);
  config.add("mamba_d_ssm", required_size(model, "ssm.inner_size"));
  config.add("mamba_rms_norm", has_in_any_layer(model, "ssm_norm.weight"));
  config.add("mamba_norm_before_gate", false);
}

void granite_hybrid(const GgufModel& model, JsonObject& config) {
  granite_multipliers(model, config);
  mamba2_beside_attention(model, config);
  config.add("mamba_expand", quotient(model, "ssm.inner_size", "embedding_length"));
  const bool has_rope = model.flag("rope.scaling.finetuned").value_or(true);
  config.add("position_embedding_type", has_rope ? "rope" : "nope");
  config.add("num_local_experts", model.integer("expert_count").value_or(0));
  config.add("stacked_experts", false);
  const std::string_view shared = "expert_shared_feed_forward_length";
  const std::string_view width =
      routes_to_experts(model) || model.integer(shared) ? shared : "feed_forward_length";
  config.add("shared_intermediate_size", model.same_in_layers(width).value_or(0));
}

void nemotron_h(const GgufModel& model, JsonObject& config) {
  config.add("ssm_state_size", required_size(model, "ssm.state_size"));
  config.add("conv_kernel", required_size(model, "ssm.conv_kernel"));
  config.add("mamba_num_heads", required_size(model, "ssm.time_step_rank"));
  config.add("mamba_head_dim", quotient(model, "ssm.inner_size", "ssm.time_step_rank"));
  config.add("n_groups", required_size(model, "ssm.group_count"));
  config.add("use_conv_bias", has_in_any_layer(model, "ssm_conv1d.bias"));
  if (const auto width = model.integer("expert_shared_feed_forward_length"))
    config.add("moe_shared_expert_intermediate_size", *width);
  if (const auto width = model.integer("moe_latent_size")) config.add("moe_latent_size", *width);
}

// Adds every n-th layer, counted from the first one with this tensor.
void add_interval(const GgufModel& model, std::string_view tensor, std::string_view period,
                  std::string_view offset, JsonObject& config) {
  std::vector<int32_t> with;
  for (int32_t layer = 0; layer < model.num_layers(); ++layer)
    if (model.has(fmt::format("blk.{}.{}", layer, tensor))) with.push_back(layer);
  if (with.empty()) return;
  const int32_t step = with.size() > 1 ? with[1] - with[0] : model.num_layers();
  for (size_t i = 0; i < with.size(); ++i) {
    if (with[i] == with[0] + static_cast<int32_t>(i) * step) continue;
    throw Error(ErrorCode::unsupported, "{}: \"{}\" is not in every {}th layer, which is not supported",
                model.path(), tensor, step);
  }
  config.add(period, int64_t{step});
  config.add(offset, int64_t{with[0]});
}

void jamba(const GgufModel& model, JsonObject& config) {
  mamba_sizes(model, "mamba_", "mamba_d_conv", "mamba_dt_rank", config);
  config.add("mamba_conv_bias", has_in_any_layer(model, "ssm_conv1d.bias"));
  add_interval(model, "ffn_gate_inp.weight", "expert_layer_period", "expert_layer_offset", config);
}

void lfm2(const GgufModel& model, JsonObject& config) {
  config.add("conv_L_cache", required_size(model, "shortconv.l_cache"));
  config.add("block_auto_adjust_ff_dim", false);
}

void lfm2_moe(const GgufModel& model, JsonObject& config) {
  config.add("conv_L_cache", required_size(model, "shortconv.l_cache"));
  config.add("num_dense_layers", model.integer("leading_dense_block_count").value_or(0));
  config.add("use_expert_bias", has_in_any_layer(model, "exp_probs_b.bias"));
}

void qwen_delta(const GgufModel& model, JsonObject& config) {
  config.add("linear_num_key_heads", required_size(model, "ssm.group_count"));
  config.add("linear_num_value_heads", required_size(model, "ssm.time_step_rank"));
  config.add("linear_key_head_dim", required_size(model, "ssm.state_size"));
  config.add("linear_value_head_dim", quotient(model, "ssm.inner_size", "ssm.time_step_rank"));
  config.add("linear_conv_kernel_dim", required_size(model, "ssm.conv_kernel"));
  if (const auto interval = model.integer("full_attention_interval"))
    config.add("full_attention_interval", *interval);
}

// Newer files have the queries, keys and values of all heads below each other, and the gates apart.
void qwen3_next(const GgufModel& model, JsonObject& config) {
  qwen_delta(model, config);
  normalize_experts(model, config);
  config.add("separate_qkv", has_in_any_layer(model, "attn_gate.weight"));
}

void qwen3_5(const GgufModel& model, JsonObject& config) {
  qwen_delta(model, config);
  config.add("linear_keys_alternate", true);
}

// The first layers lack experts, and the heads of latent attention are those of the class.
void kimi_linear(const GgufModel& model, JsonObject& config) {
  add_latent_sizes(model, config);
  normalize_experts(model, config);
  config.add("linear_num_heads", model.same_in_layers("attention.head_count").value_or(0));
  config.add("linear_head_dim", required_size(model, "kda.head_dim"));
  config.add("linear_conv_kernel_dim", required_size(model, "ssm.conv_kernel"));
}

constexpr auto kHybridRows = std::to_array<GgufFamily>({
    {.architecture = "mamba",
     .class_name = "FalconMambaForCausalLM",
     .parts = kMambaParts,
     .is_hybrid = true,
     .configure = mamba,
     .matches = norms_selection},
    {.architecture = "mamba",
     .class_name = "MambaForCausalLM",
     .parts = kMambaParts,
     .is_hybrid = true,
     .configure = mamba},
    {.architecture = "mamba2",
     .class_name = "Mamba2ForCausalLM",
     .parts = kMamba2Parts,
     .is_hybrid = true,
     .configure = mamba2},
    {.architecture = "falcon-h1",
     .class_name = "FalconH1ForCausalLM",
     .parts = kFalconH1Parts,
     .is_hybrid = true,
     .configure = falcon_h1},
    {.architecture = "granitehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .parts = kGraniteHybridParts,
     .has_rotary_pairs = true,
     .is_hybrid = true,
     .configure = granite_hybrid},
    {.architecture = "nemotron_h",
     .class_name = "NemotronHForCausalLM",
     .parts = kNemotronParts,
     .is_hybrid = true,
     .configure = nemotron_h},
    {.architecture = "nemotron_h_moe",
     .class_name = "NemotronHForCausalLM",
     .parts = kNemotronParts,
     .is_hybrid = true,
     .configure = nemotron_h},
    {.architecture = "jamba",
     .class_name = "JambaForCausalLM",
     .parts = kJambaParts,
     .is_hybrid = true,
     .configure = jamba},
    {.architecture = "lfm2",
     .class_name = "Lfm2ForCausalLM",
     .parts = kLfm2Parts,
     .is_hybrid = true,
     .configure = lfm2},
    {.architecture = "lfm2moe",
     .class_name = "Lfm2MoeForCausalLM",
     .parts = kLfm2Parts,
     .is_hybrid = true,
     .configure = lfm2_moe},
    {.architecture = "qwen3next",
     .class_name = "Qwen3NextForCausalLM",
     .parts = kQwenParts,
     .norms_have_one = true,
     .is_hybrid = true,
     .configure = qwen3_next},
    {.architecture = "qwen35",
     .class_name = "Qwen3_5ForCausalLM",
     .parts = kQwenParts,
     .norms_have_one = true,
     .is_hybrid = true,
     .configure = qwen3_5},
    {.architecture = "qwen35moe",
     .class_name = "Qwen3_5MoeForCausalLM",
     .parts = kQwenParts,
     .norms_have_one = true,
     .is_hybrid = true,
     .configure = qwen3_5},
    {.architecture = "kimi-linear",
     .class_name = "KimiLinearForCausalLM",
     .parts = kKimiParts,
     .is_hybrid = true,
     .configure = kimi_linear},
});

}  // namespace

gsl::span<const GgufFamily> hybrid_gguf_families() {
  return kHybridRows;
}

}  // namespace quire
