#include "core/models/gguf_config.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace quire {
namespace {

// A field of config.json, and the key of the GGUF file that has its value.
struct Renamed {
  std::string_view field;
  std::string_view key;
};
constexpr auto kWholeNumbers = std::to_array<Renamed>({
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"intermediate_size", "feed_forward_length"},
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"max_position_embeddings", "context_length"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
});
constexpr auto kNumbers = std::to_array<Renamed>({
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"layer_norm_eps", "attention.layer_norm_epsilon"},
    {"rope_theta", "rope.freq_base"},
    {"routed_scaling_factor", "expert_weights_scale"},
});

// Tokens that end a turn; the named one ends the text.
constexpr std::array<std::string_view, 3> kEndKeys = {
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
// Control tokens that end a turn if a file does not name them.
constexpr auto kEndTexts = std::to_array<std::string_view>(
    {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>",
     "<|return|>", "<|call|>", "<EOT>", "_<EOT>", "<turn|>"});

constexpr int64_t kControl = 3;

bool has_bias(const GgufModel& model, std::string_view part) {
  return model.has(fmt::format("blk.0.{}.bias", part));
}

// Keys whose 0 means that no layer has the part.
constexpr std::array<std::string_view, 3> kPartSizes = {"attention.head_count", "attention.head_count_kv",
                                                        "feed_forward_length"};

bool is_latent(const GgufModel& model) {
  return model.metadata().has(model.key("attention.kv_lora_rank"));
}

void add_whole_numbers(const GgufModel& model, const GgufFamily& family, JsonObject& config) {
  using Zeros = GgufModel::Zeros;
  for (const Renamed& row : kWholeNumbers) {
    // Latent attention has the keys of one head in files, and those of all heads in the class.
    if (row.key == "attention.head_count_kv" && is_latent(model)) continue;
    const bool is_part = std::find(kPartSizes.begin(), kPartSizes.end(), row.key) != kPartSizes.end();
    const Zeros zeros = is_part && family.is_hybrid ? Zeros::are_absent : Zeros::count;
    const auto value = model.same_in_layers(row.key, zeros);
    if (value && !(is_part && family.is_hybrid && *value == 0)) config.add(row.field, *value);
  }
}

void add_sizes(const GgufModel& model, const GgufFamily& family, JsonObject& config) {
  const TensorInfo* const embedding = model.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    throw Error(ErrorCode::format, "{}: has no matrix \"token_embd.weight\"", model.path());
  config.add("vocab_size", embedding->shape.front());
  config.add("hidden_size", model.require_integer("embedding_length"));
  config.add("num_hidden_layers", int64_t{model.num_layers()});
  add_whole_numbers(model, family, config);
  for (const Renamed& row : kNumbers)
    if (const auto value = model.number(row.key)) config.add(row.field, *value);
  if (const auto normalised = model.flag("expert_weights_norm")) config.add("norm_topk_prob", *normalised);
}

// Returns the size of a head; 0 if the class computes it otherwise.
int64_t add_head(const GgufModel& model, const GgufFamily& family, JsonObject& config) {
  if (is_latent(model) || !class_of(family).has_attention) return 0;
  const int64_t hidden = model.require_integer("embedding_length");
  const int64_t heads = model.same_in_layers("attention.head_count").value_or(0);
  const auto stored = model.integer("attention.key_length");
  if (!stored && (heads < 1 || hidden % heads != 0))
    throw Error(ErrorCode::format, "{}: \"{}\" is {}, which does not divide {}", model.path(),
                model.key("attention.head_count"), heads, hidden);
  const int64_t head = stored ? *stored : hidden / heads;
  if (model.integer("attention.value_length").value_or(head) != head)
    throw Error(ErrorCode::unsupported, "{}: \"{}\" differs from \"{}\", which is not supported",
                model.path(), model.key("attention.value_length"), model.key("attention.key_length"));
  config.add("head_dim", head);
  return head;
}

void add_switches(const GgufModel& model, const ArchitectureSpec& row, JsonObject& config) {
  const bool has_qkv_bias = has_bias(model, "attn_q") || has_bias(model, "attn_qkv");
  config.add("tie_word_embeddings", !model.has("output.weight"));
  config.add("attention_bias", has_qkv_bias);
  config.add("qkv_bias", has_qkv_bias);
  config.add("attention_out_bias", has_bias(model, "attn_output"));
  config.add("mlp_bias", has_bias(model, "ffn_down"));
  config.add("use_bias", has_bias(model, "ffn_down"));
  config.add("use_qk_norm", model.has("blk.0.attn_q_norm.weight"));
  const int64_t window = model.integer("attention.sliding_window").value_or(0);
  if (window > 0) {
    config.add("sliding_window", window);
  } else if (row.window == WindowRule::every_layer) {
    config.add_json("sliding_window", "null");
  }
}

// Adds the layers that have a window: a flag for each, or all except every n-th.
void add_layer_types(const GgufModel& model, JsonObject& config) {
  const std::string key = model.key("attention.sliding_window_pattern");
  const GgufValue* const pattern = model.metadata().find(key);
  if (pattern == nullptr) return;
  if (!pattern->is_array())
    return config.add("sliding_window_pattern", model.metadata().require_integer(key));
  std::vector<std::string> types;
  const auto layers = std::min<uint64_t>(pattern->size(), static_cast<uint64_t>(model.num_layers()));
  for (uint64_t i = 0; i < layers; ++i) {
    const auto flag = pattern->flag(i);
    const auto number = pattern->integer(i);
    if (!flag && !number)
      throw Error(ErrorCode::format, "{}: \"{}\" is not a list of flags", model.path(), key);
    types.emplace_back(flag.value_or(number.value_or(0) != 0) ? "sliding_attention" : "full_attention");
  }
  config.add_list("layer_types", types);
}

// Adds the types of layers of which some have a recurrent state, if the file has a list of either kind.
void add_hybrid_layers(const GgufModel& model, JsonObject& config) {
  std::vector<std::string> types;
  for (int32_t layer = 0; layer < model.num_layers(); ++layer) {
    const auto is_recurrent = model.is_positive("attention.recurrent_layers", layer);
    const auto has_heads = model.is_positive("attention.head_count_kv", layer);
    if (!is_recurrent && !has_heads) return;
    const bool has_mlp_alone =
        !is_recurrent && !*has_heads && model.is_positive("feed_forward_length", layer).value_or(false);
    const bool is_full = is_recurrent ? !*is_recurrent : *has_heads;
    types.emplace_back(has_mlp_alone
                           ? (model.has(fmt::format("blk.{}.ffn_gate_inp.weight", layer)) ? "moe" : "mlp")
                       : is_full ? "full_attention"
                                 : "linear_attention");
  }
  config.add_list("layer_types", types);
}

// Returns frequencies of longrope, or factors that every context has.
std::string factors_json(const GgufModel& model, const std::vector<float>& long_factors,
                         const std::vector<float>& short_factors) {
  JsonObject rope;
  rope.add("rope_type", "longrope");
  rope.add_list("long_factor", long_factors);
  rope.add_list("short_factor", short_factors);
  const int64_t context = std::max<int64_t>(model.integer("context_length").value_or(1), 1);
  rope.add("original_max_position_embeddings",
           model.integer("rope.scaling.original_context_length").value_or(context));
  rope.add("attention_factor", model.number("rope.scaling.attn_factor").value_or(1.0));
  return rope.text();
}

std::string yarn_json(const GgufModel& model, double factor) {
  JsonObject rope;
  rope.add("rope_type", "yarn");
  rope.add("factor", factor);
  rope.add("original_max_position_embeddings", model.require_integer("rope.scaling.original_context_length"));
  rope.add("beta_fast", model.number("rope.scaling.yarn_beta_fast").value_or(32.0));
  rope.add("beta_slow", model.number("rope.scaling.yarn_beta_slow").value_or(1.0));
  if (const auto attention = model.number("rope.scaling.yarn_attn_factor"))
    rope.add("attention_factor", *attention);
  const double multiplier = model.number("rope.scaling.yarn_log_multiplier").value_or(0.0);
  // The converter of DeepSeek writes a tenth of the value.
  if (multiplier != 0.0) {
    const double scale = is_latent(model) ? multiplier * 10.0 : multiplier;
    rope.add("mscale", scale);
    rope.add("mscale_all_dim", scale);
  }
  if (model.architecture() == "gpt-oss") rope.add("truncate", false);
  if (const auto beta = model.number("attention.temperature_scale")) rope.add("llama_4_scaling_beta", *beta);
  return rope.text();
}

void add_rope(const GgufModel& model, int64_t head, JsonObject& config) {
  const int64_t rotary = model.integer("rope.dimension_count").value_or(head);
  if (head > 0 && rotary > 0 && rotary != head)
    config.add("partial_rotary_factor", static_cast<double>(rotary) / static_cast<double>(head));
  const std::vector<float> all = model.floats("rope_freqs.weight");
  if (!all.empty()) return config.add_json("rope_parameters", factors_json(model, all, all));
  const std::vector<float> long_factors = model.floats("rope_factors_long.weight");
  if (!long_factors.empty())
    return config.add_json("rope_parameters",
                           factors_json(model, long_factors, model.floats("rope_factors_short.weight")));
  const std::string_view kind = model.metadata().text(model.key("rope.scaling.type")).value_or("none");
  const double old_factor = model.number("rope.scale_linear").value_or(1.0);
  const double factor = model.number("rope.scaling.factor").value_or(old_factor);
  if (kind == "yarn") return config.add_json("rope_parameters", yarn_json(model, factor));
  if (kind == "linear" || (kind == "none" && old_factor != 1.0)) {
    JsonObject rope;
    rope.add("rope_type", "linear");
    rope.add("factor", factor);
    return config.add_json("rope_parameters", rope.text());
  }
  if (kind != "none" && kind != "longrope")
    throw Error(ErrorCode::unsupported, "{}: \"{}\" is \"{}\"; supported are none, linear, yarn and longrope",
                model.path(), model.key("rope.scaling.type"), printable(kind, 32));
}

std::vector<int64_t> end_tokens(const GgufModel& model) {
  std::vector<int64_t> ids;
  const auto add = [&](int64_t id) {
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  for (const std::string_view key : kEndKeys)
    if (const auto id = model.metadata().integer(key)) add(*id);
  const GgufValue* const tokens = model.metadata().array("tokenizer.ggml.tokens", true);
  const GgufValue* const types = model.metadata().array("tokenizer.ggml.token_type", false);
  if (tokens == nullptr || types == nullptr) return ids;
  for (uint64_t i = 0; i < std::min(tokens->size(), types->size()); ++i) {
    if (types->integer(i) != kControl) continue;
    if (std::find(kEndTexts.begin(), kEndTexts.end(), *tokens->text(i)) != kEndTexts.end())
      add(static_cast<int64_t>(i));
  }
  return ids;
}

}  // namespace

std::string gguf_config(const GgufModel& model, const GgufFamily& family) {
  const ArchitectureSpec& row = class_of(family);
  if (model.flag("attention.causal") == false)
    throw Error(ErrorCode::unsupported, "{}: \"{}\" is false: attention to later tokens is not supported",
                model.path(), model.key("attention.causal"));
  JsonObject config;
  config.add_json("architectures", "[" + json_quoted(family.class_name) + "]");
  config.add("model_type", row.model_type);
  add_sizes(model, family, config);
  const int64_t head = add_head(model, family, config);
  add_switches(model, row, config);
  if (family.is_hybrid) {
    add_hybrid_layers(model, config);
  } else {
    add_layer_types(model, config);
  }
  add_rope(model, head, config);
  if (family.configure != nullptr) family.configure(model, config);
  return config.text();
}

std::string gguf_generation_config(const GgufModel& model) {
  constexpr auto kTokens = std::to_array<Renamed>(
      {{"bos_token_id", "tokenizer.ggml.bos_token_id"}, {"pad_token_id", "tokenizer.ggml.padding_token_id"}});
  constexpr auto kSettings =
      std::to_array<Renamed>({{"temperature", "general.sampling.temp"},
                              {"top_p", "general.sampling.top_p"},
                              {"min_p", "general.sampling.min_p"},
                              {"repetition_penalty", "general.sampling.penalty_repeat"}});
  JsonObject config;
  const GgufMetadata& metadata = model.metadata();
  if (const std::vector<int64_t> ends = end_tokens(model); !ends.empty())
    config.add_list("eos_token_id", ends);
  for (const Renamed& row : kTokens)
    if (const auto id = metadata.integer(row.key)) config.add(row.field, *id);
  for (const Renamed& row : kSettings)
    if (const auto value = metadata.number(row.key)) config.add(row.field, *value);
  if (const auto value = metadata.integer("general.sampling.top_k")) config.add("top_k", *value);
  return config.text();
}

}  // namespace quire
