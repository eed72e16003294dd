#include "core/config/model_config.h"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/config_fields.h"
#include "core/config/mistral_params.h"
#include "core/config/model_reader.h"

namespace quire {
namespace {

// Returns the model_type of the text part of a multimodal checkpoint; nothing if there is none.
std::optional<JsonView> find_text_type(const ConfigFields& fields) {
  for (const std::string_view part : {"text_config", "llm_config"}) {
    const auto text = fields.find(part);
    auto type = text ? text->find("model_type") : std::nullopt;
    if (type) return type;
  }
  return std::nullopt;
}

// Returns the entry of `architectures`; nothing if the list is absent or empty.
std::optional<JsonView> find_listed_class(const ConfigFields& fields) {
  const auto listed = fields.find("architectures");
  if (!listed) return std::nullopt;
  if (!listed->is_array() || listed->elements().size() > 1)
    throw Error(ErrorCode::format, "{} must be a list of at most one entry", listed->where());
  if (listed->elements().empty()) return std::nullopt;
  return listed->items().front();
}

// Decides the family: by the class, or by model_type if there is no class or it is the family's class without
// a head, or by the model_type of the text part.
const ArchitectureSpec& read_architecture(const ConfigFields& fields) {
  const auto listed = find_listed_class(fields);
  const auto model_type = fields.find("model_type");
  if (!listed && !model_type) throw Error(ErrorCode::format, "{}.architectures is missing", fields.where());
  const JsonView& named = listed ? *listed : *model_type;
  const std::string name = named.as_string();
  const ArchitectureSpec* spec = listed ? find_architecture(name) : nullptr;
  if (!spec && model_type) {
    const ArchitectureSpec* by_type = find_architecture_by_model_type(model_type->as_string());
    if (by_type && (!listed || is_class_of(*by_type, name))) spec = by_type;
  }
  const auto text_type = find_text_type(fields);
  if (!spec && text_type) spec = find_architecture_by_model_type(text_type->as_string());
  if (spec) return *spec;
  const std::string text_part =
      text_type ? fmt::format(", nor is {} \"{}\"", text_type->where(), printable(text_type->as_string()))
                : std::string();
  const std::string description = describe_unsupported(name);
  throw Error(ErrorCode::unsupported,
              "{}: the architecture \"{}\" is not supported{}{}{}; docs/formats.md lists all", named.where(),
              printable(name), text_part, description.empty() ? "" : ": ", description);
}

ModelSpec read_model(const ConfigFields& fields, const ArchitectureSpec& row, ModelConfig& config) {
  ModelReader reader(fields, row);
  if (row.refine != nullptr) row.refine(reader);
  finish_model(fields, reader.model());
  config.max_positions = reader.max_positions();
  return std::move(reader.model());
}

// Reads a token id. Negative ids, which some exporters write for padding, mean none.
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
    auto value = fields.find(name);
    const int32_t unset = config.architecture->default_special_token;
    const int64_t* id = value ? value->raw().as_int() : nullptr;
    const bool is_unset = unset >= config.vocab_size && id != nullptr && *id == unset;
    return is_unset ? std::nullopt : value;
  };
  if (const auto eos = find("eos_token_id")) config.eos_ids = read_token_ids(*eos, config.vocab_size);
  config.bos_id = read_token(find("bos_token_id"), config.vocab_size);
  config.pad_id = read_token(find("pad_token_id"), config.vocab_size);
}

// Returns the heads of the first layer that has attention; no heads if there is none.
kernels::HeadShape first_heads(const ModelSpec& model) {
  for (const LayerSpec& layer : model.layers)
    if (const AttentionPart* const attention = layer.find_attention()) return attention->heads;
  return {};
}

ModelConfig parse_config(std::string_view config_text, const std::string& config_path,
                         std::string_view generation_text, const std::string& directory) {
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
  config.quantization = read_quantization_config(fields);
  config.spec = read_model(fields, *config.architecture, config);
  const auto listed = find_listed_class(fields);
  config.spec.head.may_be_absent = listed && is_class_without_head(*config.architecture, listed->as_string());
  config.num_layers = static_cast<int32_t>(config.spec.layers.size());
  config.hidden_size = config.spec.hidden_size;
  config.vocab_size = config.spec.vocab_size;
  config.heads = first_heads(config.spec);
  read_special_tokens(fields, generation, config);
  if (generation) config.usage.generation = read_generation_rules(*generation, config.vocab_size);
  return config;
}

}  // namespace

ModelConfig parse_model_config(std::string_view config_text, std::string_view generation_text,
                               const std::string& directory) {
  return parse_config(config_text, path_in(directory, "config.json"), generation_text, directory);
}

ModelConfig parse_mistral_params(std::string_view params_text, std::string_view generation_text,
                                 const std::string& directory) {
  const std::string path = path_in(directory, "params.json");
  const std::string config_text = config_of_mistral_params(params_text, path);
  return parse_config(config_text, path + " (by the names of config.json)", generation_text, directory);
}

ModelConfig parse_gguf_config(std::string_view config_text, std::string_view generation_text,
                              const std::string& file) {
  return parse_config(config_text, file + " (by the names of config.json)", generation_text, file);
}

void add_embedding_config(const FileSystem& file_system, const std::string& directory, ModelConfig& config) {
  config.usage.embedding = read_embedding_config(file_system, directory);
  if (config.usage.embedding.is_declared) config.spec.head.may_be_absent = true;
}

ModelConfig read_model_config(const FileSystem& file_system, const std::string& directory) {
  const std::string generation_path = path_in(directory, "generation_config.json");
  const std::string config_text =
      file_system.read_text(path_in(directory, "config.json"), kConfigLimits.max_bytes);
  std::string generation_text;
  if (file_system.is_file(generation_path)) {
    generation_text = file_system.read_text(generation_path, kConfigLimits.max_bytes);
  }
  ModelConfig config = parse_model_config(config_text, generation_text, directory);
  add_embedding_config(file_system, directory, config);
  return config;
}

}  // namespace quire
