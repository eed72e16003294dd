#include "core/config/mistral_params.h"

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/config_fields.h"

namespace quire {
namespace {

constexpr int64_t kMaxSize = 1 << 30;
constexpr int64_t kMaxLayers = 1024;
constexpr double kMaxNumber = 1e12;
// The ids in each of Mistral's tokenizers.
constexpr int64_t kBos = 1;
constexpr int64_t kEos = 2;

// An integer that both descriptions have.
struct IntName {
  std::string_view params;
  std::string_view config;
  bool required = false;
};
constexpr std::array<IntName, 8> kSizes = {{
    {"dim", "hidden_size", true},
    {"n_layers", "num_hidden_layers", true},
    {"hidden_dim", "intermediate_size", true},
    {"n_heads", "num_attention_heads", true},
    {"vocab_size", "vocab_size", true},
    {"n_kv_heads", "num_key_value_heads"},
    {"head_dim", "head_dim"},
    {"max_position_embeddings", "max_position_embeddings"},
}};
constexpr std::array<IntName, 4> kLatentSizes = {{
    {"kv_lora_rank", "kv_lora_rank", true},
    {"qk_nope_head_dim", "qk_nope_head_dim", true},
    {"qk_rope_head_dim", "qk_rope_head_dim", true},
    {"v_head_dim", "v_head_dim", true},
}};
constexpr std::array<IntName, 2> kExperts = {{
    {"num_experts", "num_local_experts", true},
    {"num_experts_per_tok", "num_experts_per_tok", true},
}};
constexpr std::array<IntName, 8> kLatentExperts = {{
    {"num_experts", "n_routed_experts", true},
    {"num_experts_per_tok", "num_experts_per_tok", true},
    {"expert_hidden_dim", "moe_intermediate_size", true},
    {"num_shared_experts", "n_shared_experts"},
    {"num_expert_groups", "n_group"},
    {"num_expert_groups_per_tok", "topk_group"},
    {"first_k_dense_replace", "first_k_dense_replace"},
    {"route_every_n", "moe_layer_freq"},
}};

// The text of an object that grows by a member at a time.
class ObjectText {
 public:
  void add(std::string_view name, std::string_view value) {
    text_ += fmt::format("{}\"{}\":{}", text_.empty() ? "" : ",", name, value);
  }
  void add(std::string_view name, int64_t value) { add(name, fmt::format("{}", value)); }
  void add(std::string_view name, double value) { add(name, fmt::format("{}", value)); }
  std::string text() const { return fmt::format("{{{}}}", text_); }

 private:
  std::string text_;
};

template <size_t N>
void copy_sizes(const JsonView& params, const std::array<IntName, N>& names, ObjectText& config) {
  for (const IntName& name : names) {
    const auto value = name.required ? params.at(name.params) : params.find(name.params);
    if (value) config.add(name.config, value->as_int(0, kMaxSize));
  }
}

void copy_number(const JsonView& params, std::string_view from, std::string_view to, ObjectText& config) {
  if (const auto value = params.find(from)) config.add(to, value->as_number(0.0, kMaxNumber));
}

[[noreturn]] void refuse(const JsonView& field, std::string_view what) {
  throw Error(ErrorCode::unsupported, "{}: {} is not supported", field.where(), what);
}

// Returns a window size; nothing if the value is null. Some files write the number as a string.
std::optional<int64_t> read_window(const JsonView& value) {
  if (value.is_null()) return std::nullopt;
  const std::string* const text = value.raw().as_string();
  if (text == nullptr) return value.as_int(1, kMaxSize);
  int64_t window = 0;
  const char* const end = text->data() + text->size();
  const auto [last, error] = std::from_chars(text->data(), end, window);
  if (error == std::errc() && last == end && window >= 1 && window <= kMaxSize) return window;
  throw Error(ErrorCode::format, "{}: \"{}\" is not a number of tokens", value.where(), printable(*text, 32));
}

// Writes the windows of a list, which repeats until it covers all layers.
void add_windows_by_layer(const JsonView& list, int64_t num_layers, ObjectText& config) {
  const std::vector<JsonView> items = list.items();
  if (items.empty() || static_cast<int64_t>(items.size()) > num_layers)
    throw Error(ErrorCode::format, "{} must have from 1 to {} entries", list.where(), num_layers);
  std::optional<int64_t> size;
  std::string types;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const JsonView& item = items[static_cast<size_t>(layer) % items.size()];
    const auto window = read_window(item);
    if (window && size && *window != *size) refuse(item, "a window of a second size");
    if (window) size = window;
    types +=
        fmt::format("{}\"{}\"", types.empty() ? "" : ",", window ? "sliding_attention" : "full_attention");
  }
  config.add("layer_types", fmt::format("[{}]", types));
  config.add("sliding_window", size ? fmt::format("{}", *size) : "null");
}

// Writes the settings of the rotary embedding and, under the same names, those of the scaled queries.
void add_rope(const JsonView& params, ObjectText& config) {
  ObjectText rope;
  rope.add("rope_theta", params.number_or("rope_theta", 10000.0, 1.0, kMaxNumber));
  const auto yarn = params.find("yarn");
  rope.add("rope_type", yarn ? "\"yarn\"" : "\"default\"");
  std::optional<int64_t> context;
  if (yarn) {
    context = yarn->at("original_max_position_embeddings").as_int(1, kMaxSize);
    rope.add("factor", yarn->at("factor").as_number(1.0, kMaxNumber));
    copy_number(*yarn, "beta", "beta_fast", rope);
    copy_number(*yarn, "alpha", "beta_slow", rope);
    if (!yarn->bool_or("apply_scale", true)) {
      rope.add("mscale", 1.0);
      rope.add("mscale_all_dim", 1.0);
    }
  }
  if (const auto scaling = params.find("llama_4_scaling")) {
    const JsonView field = scaling->at("original_max_position_embeddings");
    const int64_t own = field.as_int(1, kMaxSize);
    if (context && *context != own) refuse(field, "a context other than yarn's");
    context = own;
    rope.add("llama_4_scaling_beta", scaling->at("beta").as_number(0.0, kMaxNumber));
  }
  if (context) rope.add("original_max_position_embeddings", *context);
  config.add("rope_parameters", rope.text());
}

void add_quantization(const JsonView& params, ObjectText& config) {
  const auto quantization = params.find("quantization");
  if (!quantization || quantization->members().empty()) return;
  const std::string format = quantization->string_or("qformat_weight", "");
  if (format != "fp8_e4m3") {
    throw Error(ErrorCode::unsupported, "{}.qformat_weight: \"{}\" is not supported, only fp8_e4m3",
                quantization->where(), printable(format, 32));
  }
  config.add("quantization_config", R"({"quant_method":"fp8"})");
}

// Writes the sizes of latent attention and its experts. Mistral's own files have a matrix for each expert;
// those of transformers stack them.
void add_latent(const JsonView& params, const std::optional<JsonView>& moe, ObjectText& config) {
  copy_sizes(params, kLatentSizes, config);
  const auto query_rank = params.find("q_lora_rank");
  config.add("q_lora_rank", query_rank ? fmt::format("{}", query_rank->as_int(0, kMaxSize)) : "null");
  if (!moe) refuse(params.at("kv_lora_rank"), "latent attention without experts");
  copy_sizes(*moe, kLatentExperts, config);
  copy_number(*moe, "routed_scale", "routed_scaling_factor", config);
  config.add("stacked_experts", "false");
}

// Refuses models with an encoder or decoder of sound, whose files name the tensors of the text part
// otherwise.
void refuse_audio(const JsonView& params) {
  const auto encoders = params.find("multimodal");
  if (!encoders) return;
  for (const char* const name : {"whisper_model_args", "audio_model_args"})
    if (const auto audio = encoders->find(name))
      refuse(*audio, "a model with an encoder or decoder of sound, such as Voxtral,");
}

// Returns the class of transformers, and writes the fields that only this class has.
std::string_view add_class(const JsonView& params, ObjectText& config) {
  const auto moe = params.find("moe");
  const auto window = params.find("sliding_window");
  const bool by_layer = window && window->is_array();
  if (!by_layer) {
    const auto size = window ? read_window(*window) : std::nullopt;
    config.add("sliding_window", size ? fmt::format("{}", *size) : "null");
  } else if (moe || params.has("llama_4_scaling") || params.has("kv_lora_rank")) {
    refuse(*window, "a window for each layer of a model with this attention or with experts");
  } else {
    add_windows_by_layer(*window, params.at("n_layers").as_int(1, kMaxLayers), config);
    return "MinistralForCausalLM";
  }
  if (params.has("kv_lora_rank")) {
    add_latent(params, moe, config);
    return "Mistral4ForCausalLM";
  }
  if (params.has("llama_4_scaling")) {
    if (moe) refuse(*moe, "scaled queries with experts");
    return "Ministral3ForCausalLM";
  }
  if (!moe) return "MistralForCausalLM";
  copy_sizes(*moe, kExperts, config);
  return "MixtralForCausalLM";
}

}  // namespace

std::string config_of_mistral_params(std::string_view params_text, const std::string& where) {
  const JsonValue parsed = parse_json(params_text, where, kConfigLimits);
  const JsonView params(parsed, where);
  const std::string kind = params.string_or("model_type", "transformer");
  if (kind != "transformer") refuse(params.at("model_type"), fmt::format("\"{}\"", printable(kind, 32)));
  refuse_audio(params);
  ObjectText config;
  copy_sizes(params, kSizes, config);
  if (!params.has("max_position_embeddings")) {
    if (const auto length = params.find("max_seq_len"))
      config.add("max_position_embeddings", length->as_int(1, kMaxSize));
  }
  config.add("hidden_act", json_quoted(params.string_or("activation", "silu")));
  config.add("rms_norm_eps", params.number_or("norm_eps", 1e-5, 0.0, 1.0));
  config.add("tie_word_embeddings", params.bool_or("tied_embeddings", false) ? "true" : "false");
  config.add("rope_interleave", "true");
  if (params.at("vocab_size").as_int(1, kMaxSize) > kEos) {
    config.add("bos_token_id", kBos);
    config.add("eos_token_id", kEos);
  }
  add_rope(params, config);
  add_quantization(params, config);
  config.add("architectures", fmt::format("[\"{}\"]", add_class(params, config)));
  return config.text();
}

}  // namespace quire
