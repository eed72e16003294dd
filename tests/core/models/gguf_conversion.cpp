#include "tests/core/models/gguf_conversion.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <regex>
#include <stdexcept>

namespace quire::testing {
namespace {

constexpr uint32_t kF32 = 0, kBf16 = 30;

const std::vector<std::pair<std::string, std::string>>& usual_parts() {
  static const std::vector<std::pair<std::string, std::string>> kParts = {
      {"input_layernorm", "attn_norm"},
      {"ln_1", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.dense", "attn_output"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"attn.attention.q_proj", "attn_q"},
      {"attn.attention.k_proj", "attn_k"},
      {"attn.attention.v_proj", "attn_v"},
      {"attn.attention.out_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"self_attn.query_layernorm", "attn_q_norm"},
      {"self_attn.key_layernorm", "attn_k_norm"},
      {"self_attn.q_a_proj", "attn_q_a"},
      {"self_attn.q_a_layernorm", "attn_q_a_norm"},
      {"self_attn.q_b_proj", "attn_q_b"},
      {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
      {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
      {"self_attn.kv_b_proj", "attn_kv_b"},
      {"post_attention_layernorm", "ffn_norm"},
      {"ln_2", "ffn_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"post_self_attn_layernorm", "post_attention_norm"},
      {"post_mlp_layernorm", "post_ffw_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.fc1", "ffn_up"},
      {"mlp.fc2", "ffn_down"},
      {"mlp.c_fc", "ffn_up"},
      {"mlp.c_fc_0", "ffn_gate"},
      {"mlp.c_fc_1", "ffn_up"},
      {"mlp.c_proj", "ffn_down"},
      {"mlp.gate", "ffn_gate_inp"},
      {"mlp.router", "ffn_gate_inp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
      {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
      {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
      {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
      {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
      {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
  };
  return kParts;
}

const std::vector<std::pair<std::string, std::string>> kNormAfterAttention = {
    {"post_attention_layernorm", "post_attention_norm"}};

// Returns the rows of each head with the two rows of each rotary pair side by side.
std::string paired_rows(const StoredTensor& tensor, size_t heads) {
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const size_t row_bytes = tensor.bytes.size() / rows, half = rows / heads / 2;
  std::string out;
  for (size_t head = 0; head < heads; ++head)
    for (size_t i = 0; i < half; ++i)
      for (size_t j = 0; j < 2; ++j)
        out += tensor.bytes.substr(((head * 2 + j) * half + i) * row_bytes, row_bytes);
  return out;
}

class Converter {
 public:
  Converter(const StoredModel& model, const GgufConversion& conversion)
      : model_(model), conversion_(conversion), config_(model.config) {}

  GgufBuilder convert() {
    add_metadata();
    for (const StoredTensor& tensor : model_.tensors) add(tensor);
    for (const auto& [name, experts] : stacks_) add_stack(name, experts);
    add_rope_factors();
    return std::move(file_);
  }

 private:
  std::string key(const std::string& field) const { return conversion_.architecture + "." + field; }
  bool has(const char* field) const { return config_.contains(field) && !config_[field].is_null(); }

  bool has_key(const std::string& target) const {
    return std::any_of(file_.keys.begin(), file_.keys.end(),
                       [&](const GgufKey& one) { return one.name == key(target); });
  }
  void whole(const char* field, const std::string& target) {
    if (has(field) && !has_key(target)) file_.add_u32(key(target), config_[field].get<uint32_t>());
  }
  void number(const char* field, const std::string& target) {
    if (has(field) && !has_key(target)) file_.add_f32(key(target), config_[field].get<float>());
  }

  // Returns the settings of layers with full attention.
  Json rope() const {
    Json settings = has("rope_parameters") ? config_["rope_parameters"] : Json::object();
    return settings.contains("full_attention") ? settings["full_attention"] : settings;
  }
  uint32_t head_dim() const {
    return has("head_dim")
               ? config_["head_dim"].get<uint32_t>()
               : config_["hidden_size"].get<uint32_t>() / config_["num_attention_heads"].get<uint32_t>();
  }

  void add_metadata() {
    file_.add_text("general.architecture", conversion_.architecture);
    if (conversion_.metadata != nullptr) conversion_.metadata(config_, file_);
    for (const char* field : {"num_hidden_layers", "n_layer", "n_layers"}) whole(field, "block_count");
    for (const char* field : {"max_position_embeddings", "n_positions", "max_seq_len", "model_max_length"})
      whole(field, "context_length");
    for (const char* field : {"hidden_size", "n_embd", "d_model"}) whole(field, "embedding_length");
    whole("intermediate_size", "feed_forward_length");
    for (const char* field : {"num_attention_heads", "n_head", "n_heads"})
      whole(field, "attention.head_count");
    whole("num_key_value_heads", "attention.head_count_kv");
    number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
    for (const char* field : {"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"})
      if (conversion_.architecture != "olmoe") number(field, "attention.layer_norm_epsilon");
    if (conversion_.architecture == "olmo") file_.add_f32(key("attention.layer_norm_epsilon"), 1e-5f);
    for (const char* field : {"num_local_experts", "num_experts", "n_routed_experts"})
      whole(field, "expert_count");
    whole("num_experts_per_tok", "expert_used_count");
    whole("moe_intermediate_size", "expert_feed_forward_length");
    if (conversion_.architecture == "gpt-oss") whole("intermediate_size", "expert_feed_forward_length");
    whole("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
    whole("n_shared_experts", "expert_shared_count");
    whole("n_group", "expert_group_count");
    whole("topk_group", "expert_group_used_count");
    whole("first_k_dense_replace", "leading_dense_block_count");
    number("routed_scaling_factor", "expert_weights_scale");
    if (has("norm_topk_prob") && config_["norm_topk_prob"].get<bool>())
      file_.add_flag(key("expert_weights_norm"), true);
    if (conversion_.architecture == "deepseek2" || conversion_.architecture == "glm4moe" ||
        conversion_.architecture == "dots1")
      file_.add_u32(key("expert_gating_func"), conversion_.family == "deepseek_v2" ? 1 : 2);
    add_scales();
    add_windows();
    add_rope();
    file_.add_u32("tokenizer.ggml.eos_token_id", 2);
  }

  void add_scales() {
    number("attention_multiplier", "attention.scale");
    number("embedding_multiplier", "embedding_scale");
    number("residual_multiplier", "residual_scale");
    number("logits_scaling", "logit_scale");
    number("logit_scale", "logit_scale");
    number("clip_qkv", "attention.clamp_kqv");
    number("attn_logit_softcapping", "attn_logit_softcapping");
    number("final_logit_softcapping", "final_logit_softcapping");
  }

  void add_windows() {
    const bool ignored =
        conversion_.architecture.starts_with("qwen") || conversion_.architecture == "smollm3";
    if (!ignored) whole("sliding_window", "attention.sliding_window");
    const bool writes_flags = conversion_.architecture == "olmo2" || conversion_.architecture == "cohere2" ||
                              conversion_.architecture == "dots1" || conversion_.architecture == "gpt-oss" ||
                              conversion_.architecture == "afmoe" ||
                              conversion_.architecture.starts_with("exaone") ||
                              conversion_.architecture.starts_with("gemma");
    if (ignored || !has("layer_types") || !writes_flags) return;
    std::vector<uint8_t> flags;
    for (const Json& type : config_["layer_types"]) flags.push_back(type == "sliding_attention" ? 1 : 0);
    file_.add_numbers<uint8_t>(key("attention.sliding_window_pattern"), 7, flags);
  }

  void add_rope() {
    const Json settings = rope();
    if (!has_key("rope.freq_base"))
      file_.add_f32(key("rope.freq_base"),
                    settings.value("rope_theta", config_.value("rope_theta", 10000.0f)));
    const double part = settings.value("partial_rotary_factor", config_.value("partial_rotary_factor", 1.0));
    if (has_key("attention.kv_lora_rank") || !has("num_attention_heads")) {
      // The conversion has written the sizes, or there are no heads.
    } else if (conversion_.architecture == "deepseek2") {
      whole("q_lora_rank", "attention.q_lora_rank");
      whole("kv_lora_rank", "attention.kv_lora_rank");
      whole("qk_rope_head_dim", "rope.dimension_count");
      file_.add_u32(key("attention.key_length"), config_["qk_rope_head_dim"].get<uint32_t>() +
                                                     config_["qk_nope_head_dim"].get<uint32_t>());
      whole("v_head_dim", "attention.value_length");
    } else {
      if (has("head_dim")) {
        whole("head_dim", "attention.key_length");
        whole("head_dim", "attention.value_length");
      }
      file_.add_u32(key("rope.dimension_count"), static_cast<uint32_t>(head_dim() * part));
    }
    const std::string kind = settings.value("rope_type", "default");
    if (kind == "linear" || kind == "yarn") {
      file_.add_text(key("rope.scaling.type"), kind);
      file_.add_f32(key("rope.scaling.factor"), settings["factor"].get<float>());
    }
    if (kind == "yarn") {
      file_.add_u32(key("rope.scaling.original_context_length"),
                    settings["original_max_position_embeddings"].get<uint32_t>());
      for (const char* field : {"beta_fast", "beta_slow"})
        if (settings.contains(field))
          file_.add_f32(key("rope.scaling.yarn_" + std::string(field)), settings[field].get<float>());
    }
    if (settings.contains("llama_4_scaling_beta")) {
      file_.add_f32(key("rope.scaling.yarn_log_multiplier"), settings["mscale_all_dim"].get<float>());
      file_.add_f32(key("attention.temperature_scale"), settings["llama_4_scaling_beta"].get<float>());
    } else if (settings.contains("mscale_all_dim")) {
      file_.add_f32(key("rope.scaling.yarn_log_multiplier"), 0.1f * settings["mscale_all_dim"].get<float>());
    }
  }

  void add_rope_factors() {
    const Json settings = rope();
    const std::string kind = settings.value("rope_type", "default");
    if (kind == "llama3") add_llama3_factors(settings);
    if (kind != "longrope") return;
    const auto context = static_cast<double>(config_["max_position_embeddings"].get<uint32_t>());
    const auto original = static_cast<double>(settings["original_max_position_embeddings"].get<uint32_t>());
    file_.add_u32(key("rope.scaling.original_context_length"), static_cast<uint32_t>(original));
    if (!has_key("rope.scaling.attn_factor"))
      file_.add_f32(key("rope.scaling.attn_factor"),
                    static_cast<float>(std::sqrt(1.0 + std::log(context / original) / std::log(original))));
    for (const char* name : {"long", "short"}) {
      const auto factors = settings[std::string(name) + "_factor"].get<std::vector<float>>();
      file_.add_floats("rope_factors_" + std::string(name) + ".weight", {factors.size()}, factors);
    }
  }

  void add_llama3_factors(const Json& settings) {
    const double base = settings["rope_theta"], factor = settings["factor"];
    const double low = settings["low_freq_factor"], high = settings["high_freq_factor"];
    const double context = settings["original_max_position_embeddings"];
    std::vector<float> factors;
    for (uint32_t i = 0; i < head_dim(); i += 2) {
      const double wave = 2 * std::numbers::pi * std::pow(base, static_cast<double>(i) / head_dim());
      const double smooth = (context / wave - low) / (high - low);
      factors.push_back(static_cast<float>(wave < context / high ? 1.0
                                           : wave > context / low
                                               ? factor
                                               : 1.0 / ((1.0 - smooth) / factor + smooth)));
    }
    file_.add_floats("rope_freqs.weight", {factors.size()}, factors);
  }

  std::string part_name(const std::string& part) const {
    for (const auto& parts : {conversion_.parts, usual_parts()})
      for (const auto& [name, stored] : parts)
        if (name == part) return stored;
    throw std::runtime_error("no GGUF name for " + part);
  }

  void add(const StoredTensor& tensor) {
    const NameParts parts = parts_of_name(tensor.name);
    if (!parts.layer.empty()) return add_of_layer(parts.layer, parts.rest, tensor);
    if (add_converted("", parts.rest, tensor)) return;
    static const std::map<std::string, std::string> kOuter = {
        {"model.embed_tokens", "token_embd"},
        {"transformer.wte", "token_embd"},
        {"lm_head", "output"},
        {"model.norm", "output_norm"},
        {"model.final_layernorm", "output_norm"},
        {"model.embedding_norm", "token_embd_norm"},
        {"transformer.wpe", "position_embd"},
        {"transformer.norm_f", "output_norm"},
        {"transformer.word_embeddings", "token_embd"},
        {"transformer.word_embeddings_layernorm", "token_embd_norm"},
        {"gpt_neox.embed_in", "token_embd"},
        {"gpt_neox.final_layer_norm", "output_norm"},
        {"embed_out", "output"},
        {"backbone.embeddings", "token_embd"},
        {"backbone.norm_f", "output_norm"},
        {"transformer.ln_f", "output_norm"}};
    const size_t dot = tensor.name.rfind('.');
    write(kOuter.at(tensor.name.substr(0, dot)) + tensor.name.substr(dot), tensor);
  }

  // Adds what the class of the conversion makes of a tensor. Returns false if it is like most.
  bool add_converted(const std::string& prefix, const std::string& rest, const StoredTensor& tensor) {
    if (conversion_.convert == nullptr) return false;
    const std::vector<StoredTensor> converted = conversion_.convert(config_, rest, tensor);
    for (const StoredTensor& one : converted) write(prefix + one.name, one);
    return !converted.empty();
  }

  void add_of_layer(const std::string& layer, const std::string& rest, const StoredTensor& tensor) {
    const std::string prefix = "blk." + layer + ".";
    if (add_converted(prefix, rest, tensor)) return;
    static const std::regex kExpert(
        R"((?:mlp|block_sparse_moe|feed_forward|mixer)\.experts\.(\d+)\.(\w+)\.weight)");
    std::smatch match;
    if (std::regex_match(rest, match, kExpert)) {
      static const std::map<std::string, std::string> kKinds = {{"gate_proj", "gate"}, {"up_proj", "up"},
                                                                {"down_proj", "down"}, {"w1", "gate"},
                                                                {"w3", "up"},          {"w2", "down"}};
      stacks_[prefix + "ffn_" + kKinds.at(match[2]) + "_exps.weight"][std::stoi(match[1])] = tensor;
      return;
    }
    if (rest == "self_attn.sinks") return write(prefix + "attn_sinks.weight", tensor);
    if (rest == "mlp.gate.e_score_correction_bias") return write(prefix + "exp_probs_b.bias", tensor);
    if (rest.starts_with("mlp.experts.")) return add_gpt_oss(prefix, rest, tensor);
    const size_t dot = rest.rfind('.');
    const std::string stored = part_name(rest.substr(0, dot));
    if (conversion_.permutes && (stored == "attn_q" || stored == "attn_k")) {
      StoredTensor paired = tensor;
      paired.bytes = paired_rows(
          tensor, config_[stored == "attn_q" ? "num_attention_heads" : "num_key_value_heads"].get<size_t>());
      return write(prefix + stored + rest.substr(dot), paired);
    }
    write(prefix + stored + rest.substr(dot), tensor);
  }

  // Stacks are stored as [experts, inputs, outputs], with gate and up in turn.
  void add_gpt_oss(const std::string& prefix, const std::string& rest, const StoredTensor& tensor) {
    const bool is_bias = rest.ends_with("_bias"), is_down = rest.find("down") != std::string::npos;
    const auto experts = static_cast<size_t>(tensor.shape[0]);
    const auto inputs = is_bias ? size_t{1} : static_cast<size_t>(tensor.shape[1]);
    const auto outputs = static_cast<size_t>(tensor.shape.back());
    const size_t step = is_down ? 1 : 2;
    for (size_t kind = 0; kind < step; ++kind) {
      StoredTensor part = tensor;
      part.bytes.clear();
      for (size_t e = 0; e < experts; ++e)
        for (size_t j = kind; j < outputs; j += step)
          for (size_t k = 0; k < inputs; ++k)
            part.bytes += tensor.bytes.substr(2 * ((e * inputs + k) * outputs + j), 2);
      const auto own = static_cast<int64_t>(outputs / step);
      part.shape = {tensor.shape[0], own};
      if (!is_bias) part.shape.push_back(tensor.shape[1]);
      const std::string name = is_down ? "ffn_down_exps" : kind == 0 ? "ffn_gate_exps" : "ffn_up_exps";
      write(prefix + name + (is_bias ? ".bias" : ".weight"), part, is_bias);
    }
  }

  void add_stack(const std::string& name, const std::map<int, StoredTensor>& experts) {
    StoredTensor stack = experts.begin()->second;
    stack.shape.insert(stack.shape.begin(), static_cast<int64_t>(experts.size()));
    stack.bytes.clear();
    for (const auto& [number, expert] : experts) stack.bytes += expert.bytes;
    write(name, stack);
  }

  void write(const std::string& name, const StoredTensor& tensor, bool as_floats = false) {
    std::vector<int64_t> extents = tensor.shape;
    if (name.find("ffn_gate_inp_shexp") != std::string::npos) extents.erase(extents.begin());
    const std::vector<uint64_t> shape(extents.rbegin(), extents.rend());
    if (shape.size() > 1 && !as_floats) {
      file_.add_tensor(name, shape, tensor.dtype == "F32" ? kF32 : kBf16, tensor.bytes);
      return;
    }
    std::vector<float> values = floats_of(tensor);
    if (conversion_.adds_one && name.ends_with("norm.weight") && !name.ends_with("ssm_norm.weight"))
      for (float& value : values) value += 1.0f;
    file_.add_floats(name, shape, values);
  }

  const StoredModel& model_;
  const GgufConversion& conversion_;
  const Json& config_;
  GgufBuilder file_;
  std::map<std::string, std::map<int, StoredTensor>> stacks_;
};

void granite_moe_alone(const Json& config, GgufBuilder& file) {
  granite_moe("granitemoe", config, file);
}
// The keys of all heads are those of one in the file.
void deepseek(const Json& config, GgufBuilder& file) {
  file.add_u32("deepseek2.attention.head_count_kv", 1);
  add_latent_sizes("deepseek2", config, file);
}

}  // namespace

const std::vector<GgufConversion>& gguf_conversions() {
  static const std::vector<GgufConversion> kConversions = {
      {"llama3", "llama", true},
      {"llama_tied", "llama", true},
      {"llama_bias_linear_rope", "llama", true},
      {"mistral", "llama", true},
      {"mixtral", "llama", true},
      {"ministral3", "mistral3", true},
      {"smollm3", "smollm3", true},
      {"arcee", "arcee", true},
      {"seed_oss", "seed_oss", false, false, kNormAfterAttention},
      {"qwen2", "qwen2"},
      {"qwen2_yarn", "qwen2"},
      {"qwen2_moe", "qwen2moe"},
      {"qwen3", "qwen3"},
      {"qwen3_moe", "qwen3moe"},
      {"gemma", "gemma", false, true},
      {"gemma2", "gemma2", false, true, kNormAfterAttention},
      {"gemma3", "gemma3", false, true, kNormAfterAttention},
      {"phi", "phi2"},
      {"phi3", "phi3"},
      {"phi3_longrope", "phi3"},
      {"granite", "granite", true},
      {"cohere", "command-r"},
      {"cohere2", "cohere2"},
      {"olmo", "olmo", true},
      {"olmo2", "olmo2", false, false, kNormAfterAttention},
      {"olmo3", "olmo2", false, false, kNormAfterAttention},
      {"olmoe", "olmoe"},
      {"starcoder2", "starcoder2"},
      {"stablelm", "stablelm"},
      {"nemotron", "nemotron", false, true},
      {"glm4", "glm4"},
      {"glm4_moe", "glm4moe", false, false, kNormAfterAttention},
      {"ernie4_5", "ernie4_5"},
      {"exaone", "exaone"},
      {"hunyuan_dense", "hunyuan-dense"},
      {"dots1", "dots1"},
      {"gpt_oss", "gpt-oss", false, false, kNormAfterAttention},
      {"granitemoe", "granitemoe", true, false, {}, granite_moe_alone, convert_granite_moe},
      {"granitemoeshared", "granitemoe", true, false, {}, granite_moe_alone, convert_granite_moe},
      {"deepseek_v2", "deepseek2"},
      {"deepseek_v3", "deepseek2", false, false, {}, deepseek, split_latent},
  };
  static const std::vector<GgufConversion> kAll = [] {
    std::vector<GgufConversion> all = kConversions;
    for (const auto& more : {more_gguf_conversions(), hybrid_gguf_conversions()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return kAll;
}

GgufBuilder gguf_of(const StoredModel& model, const GgufConversion& conversion) {
  return Converter(model, conversion).convert();
}

}  // namespace quire::testing
