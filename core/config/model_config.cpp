#include "core/config/model_config.h"

#include <array>
#include <cmath>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/config_fields.h"

namespace quire {
namespace {

constexpr JsonLimits kConfigLimits = {.max_bytes = 4U << 20, .max_depth = 32};
constexpr int64_t kMaxPositions = 1 << 30;

constexpr IntField kNumLayers = {{"num_hidden_layers", "n_layers", "n_layer"}, 1, 1024};
constexpr IntField kHiddenSize = {{"hidden_size", "d_model", "n_embd"}, 1, 65536};
constexpr IntField kIntermediateSize = {{"intermediate_size", "n_inner"}, 1, 1 << 20};
constexpr IntField kNumHeads = {{"num_attention_heads", "n_heads", "n_head"}, 1, 1024};
constexpr IntField kNumKvHeads = {{"num_key_value_heads"}, 1, 1024};
constexpr IntField kHeadDim = {{"head_dim"}, 1, 1024};
constexpr IntField kVocabSize = {{"vocab_size"}, 1, 1 << 22};
constexpr IntField kMaxPositionsField = {
    {"max_position_embeddings", "max_sequence_length", "model_max_length", "max_seq_len", "n_positions"},
    1,
    kMaxPositions};
constexpr IntField kSlidingWindow = {{"sliding_window", "sliding_window_size"}, 1, kMaxPositions};
constexpr IntField kMaxWindowLayers = {{"max_window_layers"}, 0, 1024};

struct ActivationName {
  std::string_view name;
  kernels::Activation activation;
};
constexpr std::array<ActivationName, 8> kActivations = {{
    {"silu", kernels::Activation::silu},
    {"swish", kernels::Activation::silu},
    {"gelu", kernels::Activation::gelu_erf},
    {"gelu_python", kernels::Activation::gelu_erf},
    {"gelu_new", kernels::Activation::gelu_tanh},
    {"gelu_fast", kernels::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", kernels::Activation::gelu_tanh},
    {"relu", kernels::Activation::relu},
}};

const ArchitectureSpec& read_architecture(const ConfigFields& fields) {
  const auto listed = fields.find("architectures");
  const auto model_type = fields.find("model_type");
  std::string name;
  const ArchitectureSpec* spec = nullptr;
  if (listed) {
    if (!listed->is_array() || listed->elements().size() != 1) {
      throw Error(ErrorCode::format, "{} must be a list of exactly one entry", listed->where());
    }
    name = listed->items().front().as_string();
    spec = find_architecture(name);
  } else if (model_type) {
    name = model_type->as_string();
    spec = find_architecture_by_model_type(name);
  } else {
    throw Error(ErrorCode::format, "{}.architectures is missing", fields.where());
  }
  if (spec) return *spec;
  throw Error(ErrorCode::unsupported, "{}: the architecture \"{}\" is not supported; supported are {}",
              fields.where(), printable(name), supported_architecture_names());
}

kernels::Activation read_activation(const ConfigFields& fields, const ArchitectureSpec& spec) {
  const std::string name =
      fields.string_or({"hidden_act", "hidden_activation", "activation_function"}, spec.default_activation);
  for (const ActivationName& row : kActivations) {
    if (row.name == name) return row.activation;
  }
  throw Error(ErrorCode::unsupported, "{}.hidden_act: \"{}\" is not supported", fields.where(),
              printable(name, 32));
}

kernels::HeadShape read_heads(const ConfigFields& fields, int32_t hidden_size) {
  kernels::HeadShape heads;
  heads.num_heads = fields.require_int(kNumHeads);
  heads.num_kv_heads = fields.int_or(kNumKvHeads, heads.num_heads);
  if (heads.num_heads % heads.num_kv_heads != 0) {
    throw Error(ErrorCode::format, "{}.num_key_value_heads: {} does not divide {} heads", fields.where(),
                heads.num_kv_heads, heads.num_heads);
  }
  if (fields.find(kHeadDim.names)) {
    heads.head_dim = fields.require_int(kHeadDim);
  } else if (hidden_size % heads.num_heads == 0) {
    heads.head_dim = hidden_size / heads.num_heads;
  } else {
    throw Error(ErrorCode::format, "{}.num_attention_heads: {} does not divide hidden_size {}",
                fields.where(), heads.num_heads, hidden_size);
  }
  if (heads.head_dim > kHeadDim.max) {
    throw Error(ErrorCode::format, "{}: heads of {} dimensions, more than the limit of {}", fields.where(),
                heads.head_dim, kHeadDim.max);
  }
  return heads;
}

bool has_bias(BiasRule rule, const ConfigFields& fields, std::string_view flag) {
  return rule == BiasRule::always || (rule == BiasRule::as_configured && fields.bool_or(flag, false));
}

// Which layers of a family with a switch are windowed: `layer_types` says so, or all from max_window_layers.
bool is_windowed_layer(const ConfigFields& fields, int32_t layer, int32_t num_layers) {
  const auto types = fields.find("layer_types");
  if (!types) return layer >= fields.int_or(kMaxWindowLayers, 28);
  if (!types->is_array() || types->elements().size() != static_cast<size_t>(num_layers)) {
    throw Error(ErrorCode::format, "{} must be a list of {} entries", types->where(), num_layers);
  }
  const auto index = static_cast<size_t>(layer);
  const std::string type =
      JsonView(types->elements()[index], fmt::format("{}[{}]", types->where(), layer)).as_string();
  if (type == "sliding_attention") return true;
  if (type == "full_attention") return false;
  throw Error(ErrorCode::unsupported, "{}[{}]: \"{}\" is not supported", types->where(), layer,
              printable(type, 32));
}

std::vector<int32_t> read_windows(const ConfigFields& fields, const ArchitectureSpec& spec,
                                  int32_t num_layers) {
  std::vector<int32_t> windows(static_cast<size_t>(num_layers), 0);
  const bool by_switch = spec.window == WindowRule::by_layer_switch;
  const bool unlimited = fields.is_null("sliding_window");
  const int32_t window = fields.int_or(kSlidingWindow, unlimited ? 0 : spec.default_sliding_window);
  if (spec.window == WindowRule::no_layer || window == 0) return windows;
  if (by_switch && !fields.bool_or("use_sliding_window", false)) return windows;
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    if (!by_switch || is_windowed_layer(fields, layer, num_layers))
      windows[static_cast<size_t>(layer)] = window;
  }
  return windows;
}

int32_t read_rotary_dim(const ConfigFields& fields, const RopeConfig& rope, int32_t head_dim) {
  const auto rotary_dim = static_cast<int32_t>(head_dim * rope.partial_factor);
  if (rotary_dim < 2 || rotary_dim % 2 != 0) {
    throw Error(ErrorCode::format,
                "{}.head_dim: rotary embedding of {} dimensions, not an even number above 0", fields.where(),
                rotary_dim);
  }
  return rotary_dim;
}

// From generation_config.json where it says something, else from config.json. A negative id, as some
// exporters write for padding, means none.
std::optional<TokenId> read_token(const std::optional<JsonView>& value, int32_t vocab_size) {
  if (!value) return std::nullopt;
  const int64_t id = value->as_int(-1, vocab_size - 1);
  return id < 0 ? std::nullopt : std::optional(static_cast<TokenId>(id));
}

void read_special_tokens(const ConfigFields& fields, const std::optional<JsonView>& generation,
                         ModelConfig& config) {
  const auto find = [&](std::string_view name) -> std::optional<JsonView> {
    if (generation) {
      if (auto value = generation->find(name)) return value;
    }
    return fields.find(name);
  };
  if (const auto eos = find("eos_token_id")) config.eos_ids = read_token_ids(*eos, config.vocab_size);
  config.bos_id = read_token(find("bos_token_id"), config.vocab_size);
  config.pad_id = read_token(find("pad_token_id"), config.vocab_size);
}

void read_sizes(const ConfigFields& fields, ModelConfig& config) {
  config.num_layers = fields.require_int(kNumLayers);
  config.hidden_size = fields.require_int(kHiddenSize);
  config.intermediate_size = fields.require_int(kIntermediateSize);
  config.vocab_size = fields.require_int(kVocabSize);
  config.max_positions = fields.int_or(kMaxPositionsField, config.architecture->default_max_positions);
  config.heads = read_heads(fields, config.hidden_size);
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.heads.head_dim));
}

std::string path_in(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}

}  // namespace

ModelConfig parse_model_config(std::string_view config_text, std::string_view generation_text,
                               const std::string& directory) {
  const std::string config_path = path_in(directory, "config.json");
  const std::string generation_path = path_in(directory, "generation_config.json");
  const JsonValue config_json = parse_json(config_text, config_path, kConfigLimits);
  const ConfigFields fields{JsonView(config_json, config_path)};
  JsonValue generation_json;
  std::optional<JsonView> generation;
  if (!generation_text.empty()) {
    generation_json = parse_json(generation_text, generation_path, kConfigLimits);
    generation.emplace(generation_json, generation_path);
  }
  ModelConfig config;
  config.architecture = &read_architecture(fields);
  const ArchitectureSpec& spec = *config.architecture;
  config.quantization = read_quantization_config(fields);
  read_sizes(fields, config);
  config.norm_epsilon = static_cast<float>(
      fields.number_or({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"},
                       spec.default_norm_epsilon, 1e-12, 0.1));
  config.activation = read_activation(fields, spec);
  config.qkv_bias = has_bias(spec.qkv_bias, fields, "attention_bias");
  config.attention_output_bias = has_bias(spec.attention_output_bias, fields, "attention_bias");
  config.mlp_bias = has_bias(spec.mlp_bias, fields, "mlp_bias");
  config.tied_embeddings = fields.bool_or("tie_word_embeddings", spec.tied_by_default);
  config.rope = read_rope_config(fields, spec.default_rope_theta);
  config.rotary_dim = read_rotary_dim(fields, config.rope, config.heads.head_dim);
  config.sliding_windows = read_windows(fields, spec, config.num_layers);
  read_special_tokens(fields, generation, config);
  return config;
}

ModelConfig read_model_config(const FileSystem& file_system, const std::string& directory) {
  const std::string generation_path = path_in(directory, "generation_config.json");
  const std::string config_text =
      file_system.read_text(path_in(directory, "config.json"), kConfigLimits.max_bytes);
  std::string generation_text;
  if (file_system.is_file(generation_path)) {
    generation_text = file_system.read_text(generation_path, kConfigLimits.max_bytes);
  }
  return parse_model_config(config_text, generation_text, directory);
}

}  // namespace quire
