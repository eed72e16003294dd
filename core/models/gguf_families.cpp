#include "core/models/gguf_families.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/models/gguf_family_rows.h"

namespace quire {
namespace {

constexpr int64_t kGatedBySigmoid = 2;

bool has_experts(const GgufModel& model) {
  return model.integer("expert_count").value_or(0) > 0;
}
bool has_no_experts(const GgufModel& model) {
  return !has_experts(model);
}
bool has_windows(const GgufModel& model) {
  return model.integer("attention.sliding_window").value_or(0) > 0;
}
bool is_gated_by_sigmoid(const GgufModel& model) {
  return model.integer("expert_gating_func").value_or(1) == kGatedBySigmoid;
}

constexpr std::array<GgufPart, 4> kMixtralParts = {{
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
}};

constexpr std::array<GgufPart, 4> kQwen2MoeParts = {{
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
}};

// Norms after the blocks, by the names of Gemma.
constexpr std::array<GgufPart, 3> kGemma2Parts = {{
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};
constexpr std::array<GgufPart, 2> kOlmo2Parts = {{
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};
constexpr std::array<GgufPart, 2> kGlm4Parts = {{
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
}};
constexpr std::array<GgufPart, 1> kGlm4MoeParts = {{{"post_attention_norm", "post_attention_layernorm"}}};

constexpr std::array<GgufPart, 2> kGptOssParts = {{
    {"ffn_gate_inp", "mlp.router"},
    {"post_attention_norm", "post_attention_layernorm"},
}};

// The scale of attention is a power of the size of a head, or of an average head in the largest models.
void gemma_scale(const GgufModel& model, JsonObject& config, int32_t layers_of_largest) {
  const int64_t heads = std::max<int64_t>(model.same_in_layers("attention.head_count").value_or(1), 1);
  const int64_t hidden = model.require_integer("embedding_length");
  const int64_t head_dim = model.integer("attention.key_length").value_or(hidden / heads);
  config.add("query_pre_attn_scalar", model.num_layers() == layers_of_largest ? hidden / heads : head_dim);
}

void gemma2(const GgufModel& model, JsonObject& config) {
  gemma_scale(model, config, 46);
  config.add("attn_logit_softcapping", model.number("attn_logit_softcapping").value_or(50.0));
  config.add("final_logit_softcapping", model.number("final_logit_softcapping").value_or(30.0));
}

void gemma3(const GgufModel& model, JsonObject& config) {
  gemma_scale(model, config, 62);
  config.add("rope_local_base_freq", model.number("rope.freq_base_swa").value_or(10000.0));
  if (const auto cap = model.number("final_logit_softcapping")) config.add("final_logit_softcapping", *cap);
}

// Files do not have the kind of positions: llama.cpp takes it from the number of layers.
void baichuan(const GgufModel& model, JsonObject&) {
  if (model.num_layers() != 40) return;
  throw Error(ErrorCode::unsupported,
              "{}: Baichuan with 40 layers has ALiBi instead of RoPE, which is not supported", model.path());
}

void cohere(const GgufModel& model, JsonObject& config) {
  config.add("logit_scale", model.number("logit_scale").value_or(0.0625));
}

// Without windows all layers have full attention and RoPE.
void exaone4(const GgufModel& model, JsonObject& config) {
  if (has_windows(model)) return;
  config.add_json("sliding_window", "null");
  config.add_list("layer_types",
                  std::vector<std::string>(static_cast<size_t>(model.num_layers()), "full_attention"));
}

void olmo(const GgufModel& model, JsonObject& config) {
  if (const auto clip = model.number("attention.clamp_kqv")) config.add("clip_qkv", *clip);
}

// Blocks share a norm if there is no second one.
void stablelm(const GgufModel& model, JsonObject& config) {
  config.add("use_qkv_bias", model.has("blk.0.attn_q.bias"));
  config.add("use_parallel_residual", !model.has("blk.0.ffn_norm.weight"));
}

void gpt_oss(const GgufModel&, JsonObject& config) {
  config.add("stacked_experts", false);
}

void deepseek_v2(const GgufModel& model, JsonObject& config) {
  add_latent_sizes(model, config);
  if (model.integer("expert_group_count").value_or(1) > 1) config.add("topk_method", "group_limited_greedy");
}

constexpr auto kRows = std::to_array<GgufFamily>({
    {.architecture = "llama",
     .class_name = "LlamaForCausalLM",
     .has_rotary_pairs = true,
     .matches = has_no_experts},
    {.architecture = "llama",
     .class_name = "MixtralForCausalLM",
     .parts = kMixtralParts,
     .has_rotary_pairs = true,
     .matches = has_experts},
    {.architecture = "mistral3", .class_name = "Ministral3ForCausalLM", .has_rotary_pairs = true},
    {.architecture = "baichuan",
     .class_name = "LlamaForCausalLM",
     .has_rotary_pairs = true,
     .configure = baichuan},
    {.architecture = "xverse", .class_name = "LlamaForCausalLM", .has_rotary_pairs = true},
    {.architecture = "internlm2", .class_name = "LlamaForCausalLM", .has_rotary_pairs = true},
    {.architecture = "smollm3", .class_name = "SmolLM3ForCausalLM", .has_rotary_pairs = true},
    {.architecture = "arcee", .class_name = "ArceeForCausalLM", .has_rotary_pairs = true},
    {.architecture = "seed_oss", .class_name = "SeedOssForCausalLM", .parts = kGlm4MoeParts},
    {.architecture = "qwen2", .class_name = "Qwen2ForCausalLM"},
    {.architecture = "qwen2vl", .class_name = "Qwen2ForCausalLM"},
    {.architecture = "qwen2moe", .class_name = "Qwen2MoeForCausalLM", .parts = kQwen2MoeParts},
    {.architecture = "qwen3", .class_name = "Qwen3ForCausalLM"},
    {.architecture = "qwen3vl", .class_name = "Qwen3ForCausalLM"},
    {.architecture = "qwen3moe", .class_name = "Qwen3MoeForCausalLM", .configure = normalize_experts},
    {.architecture = "qwen3vlmoe", .class_name = "Qwen3MoeForCausalLM", .configure = normalize_experts},
    {.architecture = "gemma", .class_name = "GemmaForCausalLM", .norms_have_one = true},
    {.architecture = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .parts = kGemma2Parts,
     .norms_have_one = true,
     .configure = gemma2},
    {.architecture = "gemma3",
     .class_name = "Gemma3ForCausalLM",
     .parts = kGemma2Parts,
     .norms_have_one = true,
     .configure = gemma3},
    {.architecture = "phi2", .class_name = "PhiForCausalLM"},
    {.architecture = "phi3", .class_name = "Phi3ForCausalLM"},
    {.architecture = "granite",
     .class_name = "GraniteForCausalLM",
     .has_rotary_pairs = true,
     .configure = granite_multipliers},
    {.architecture = "command-r",
     .class_name = "CohereForCausalLM",
     .has_rotary_pairs = true,
     .configure = cohere},
    {.architecture = "cohere2",
     .class_name = "Cohere2ForCausalLM",
     .has_rotary_pairs = true,
     .configure = cohere},
    {.architecture = "olmo", .class_name = "OlmoForCausalLM", .has_rotary_pairs = true, .configure = olmo},
    {.architecture = "olmo2", .class_name = "Olmo3ForCausalLM", .parts = kOlmo2Parts, .matches = has_windows},
    {.architecture = "olmo2", .class_name = "Olmo2ForCausalLM", .parts = kOlmo2Parts},
    {.architecture = "olmoe", .class_name = "OlmoeForCausalLM"},
    {.architecture = "starcoder2", .class_name = "Starcoder2ForCausalLM"},
    {.architecture = "stablelm", .class_name = "StableLmForCausalLM", .configure = stablelm},
    {.architecture = "orion", .class_name = "OrionForCausalLM"},
    {.architecture = "nemotron", .class_name = "NemotronForCausalLM", .norms_have_one = true},
    {.architecture = "glm4", .class_name = "Glm4ForCausalLM", .parts = kGlm4Parts, .has_rotary_pairs = true},
    {.architecture = "glm4moe",
     .class_name = "Glm4MoeForCausalLM",
     .parts = kGlm4MoeParts,
     .has_module = true},
    {.architecture = "ernie4_5", .class_name = "Ernie4_5ForCausalLM", .has_rotary_pairs = true},
    {.architecture = "exaone", .class_name = "ExaoneForCausalLM"},
    {.architecture = "exaone4",
     .class_name = "Exaone4ForCausalLM",
     .parts = kOlmo2Parts,
     .configure = exaone4},
    {.architecture = "chatglm", .class_name = "GlmForCausalLM", .has_rotary_pairs = true},
    {.architecture = "hunyuan-dense", .class_name = "HunYuanDenseV1ForCausalLM"},
    {.architecture = "dots1", .class_name = "Dots1ForCausalLM"},
    {.architecture = "gpt-oss",
     .class_name = "GptOssForCausalLM",
     .parts = kGptOssParts,
     .configure = gpt_oss},
    {.architecture = "deepseek2",
     .class_name = "DeepseekV3ForCausalLM",
     .has_rotary_pairs = true,
     .has_module = true,
     .configure = add_latent_sizes,
     .matches = is_gated_by_sigmoid},
    {.architecture = "deepseek2",
     .class_name = "DeepseekV2ForCausalLM",
     .has_rotary_pairs = true,
     .configure = deepseek_v2},
});

std::array<gsl::span<const GgufFamily>, 4> all_rows() {
  return {kRows, expert_gguf_families(), gpt_gguf_families(), hybrid_gguf_families()};
}

std::string names_of_architectures() {
  std::string names;
  std::string_view last;
  for (const gsl::span<const GgufFamily> rows : all_rows()) {
    for (const GgufFamily& row : rows) {
      if (row.architecture == last) continue;
      last = row.architecture;
      names += (names.empty() ? "" : ", ") + std::string(last);
    }
  }
  return names;
}

}  // namespace

void normalize_experts(const GgufModel& model, JsonObject& config) {
  if (!model.flag("expert_weights_norm")) config.add("norm_topk_prob", true);
}

// Without a scale attention divides by the root of the size of a head, as elsewhere.
void granite_multipliers(const GgufModel& model, JsonObject& config) {
  if (const double scale = model.number("attention.scale").value_or(0.0); scale != 0.0) {
    config.add("attention_multiplier", scale);
  } else {
    const int64_t heads = std::max<int64_t>(model.same_in_layers("attention.head_count").value_or(1), 1);
    const int64_t head = std::max<int64_t>(
        model.integer("attention.key_length").value_or(model.require_integer("embedding_length") / heads), 1);
    config.add("attention_multiplier", 1.0 / std::sqrt(static_cast<double>(head)));
  }
  config.add("embedding_multiplier", model.number("embedding_scale").value_or(1.0));
  config.add("residual_multiplier", model.number("residual_scale").value_or(1.0));
  config.add("logits_scaling", model.number("logit_scale").value_or(1.0));
}

void add_latent_sizes(const GgufModel& model, JsonObject& config) {
  const int64_t rotary = model.require_integer("rope.dimension_count");
  const auto either = [&](std::string_view first, std::string_view second) {
    const auto found = model.integer(first);
    return found ? *found : model.require_integer(second);
  };
  config.add("qk_rope_head_dim", rotary);
  config.add("qk_nope_head_dim", either("attention.key_length_mla", "attention.key_length") - rotary);
  config.add("v_head_dim", either("attention.value_length_mla", "attention.value_length"));
  config.add("kv_lora_rank", model.require_integer("attention.kv_lora_rank"));
  if (const auto rank = model.integer("attention.q_lora_rank")) {
    config.add("q_lora_rank", *rank);
  } else {
    config.add_json("q_lora_rank", "null");
  }
}

const GgufFamily& gguf_family_of(const GgufModel& model) {
  const std::string_view name = model.architecture();
  for (const gsl::span<const GgufFamily> rows : all_rows())
    for (const GgufFamily& row : rows)
      if (row.architecture == name && (row.matches == nullptr || row.matches(model))) return row;
  throw Error(ErrorCode::unsupported,
              "{}: the architecture \"{}\" of GGUF files is not supported; supported are {}", model.path(),
              printable(name, 32), names_of_architectures());
}

const ArchitectureSpec& class_of(const GgufFamily& family) {
  const ArchitectureSpec* const row = find_architecture(family.class_name);
  Expects(row != nullptr);
  return *row;
}

}  // namespace quire
