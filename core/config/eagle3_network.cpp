#include "core/config/eagle3_network.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/config/families/families.h"
#include "core/config/model_reader.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 4> kClasses = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM",
                                                      "Eagle3Speculator", "Eagle3DraftModel"};
// The object with the fields of the layers, in configurations of `speculators`.
constexpr std::string_view kLayerConfig = "transformer_layer_config";
constexpr std::string_view kEagleConfig = "eagle_config";
constexpr std::string_view kStateLayers = "eagle_aux_hidden_state_layer_ids";
// Variants of the network, each announced by a field that is then true.
constexpr std::array<std::string_view, 5> kVariants = {"norm_before_fc", "fc_norm", "norm_output",
                                                       "mask_hidden", "parallel_drafting"};

// Returns the name of the first listed class; empty if there is none.
std::string listed_class(const JsonView& config) {
  const auto listed = config.find("architectures");
  if (!listed || !listed->is_array() || listed->elements().empty()) return {};
  return listed->items().front().as_string();
}

[[noreturn]] void refuse(const JsonView& field, std::string_view reason) {
  throw Error(ErrorCode::unsupported, "{}: {}; choose another drafter", field.where(), reason);
}

// Refuses a field unless it is absent or false.
void refuse_variant(const JsonView& object, std::string_view name) {
  const auto value = object.find(name);
  if (!value || (value->is_bool() && !value->as_bool())) return;
  refuse(*value, "this variant of EAGLE-3 is not supported");
}

void refuse_variants(const JsonView& object) {
  for (const std::string_view name : kVariants) refuse_variant(object, name);
  const auto reads_states = object.find("use_aux_hidden_state");
  if (reads_states && !reads_states->as_bool())
    refuse(*reads_states, "a network that reads no states of the target's layers is not supported");
}

void require_llama(const JsonView& layer_config) {
  const auto type = layer_config.find("model_type");
  if (!type || type->as_string() == "llama") return;
  throw Error(ErrorCode::unsupported, "{}: EAGLE-3 layers of \"{}\" are not supported; supported is llama",
              type->where(), printable(type->as_string(), 32));
}

// Reads the list of layers, each counted as is or, if `is_after` is true, from 1 on, and sorts it.
std::vector<int32_t> read_layers(const JsonView& list, bool is_after, int32_t num_layers) {
  if (!list.is_array() || list.elements().empty() || list.elements().size() > static_cast<size_t>(num_layers))
    throw Error(ErrorCode::format, "{} must be a list of 1 to {} numbers of the target's layers",
                list.where(), num_layers);
  std::vector<int32_t> layers;
  const int32_t first = is_after ? 1 : 0;
  for (const JsonView& entry : list.items())
    layers.push_back(first + static_cast<int32_t>(entry.as_int(0, num_layers - first)));
  std::sort(layers.begin(), layers.end());
  if (std::adjacent_find(layers.begin(), layers.end()) == layers.end()) return layers;
  throw Error(ErrorCode::format, "{}: a layer is listed twice", list.where());
}

// Returns the layers before which the target's states are read. `eagle_config` counts the layers after which
// they are read.
std::vector<int32_t> state_layers(const JsonView& config, const ModelConfig& target) {
  const auto nested = config.find(kEagleConfig);
  if (const auto list = nested ? nested->find(kStateLayers) : std::nullopt)
    return read_layers(*list, true, target.num_layers);
  if (const auto list = config.find(kStateLayers)) return read_layers(*list, false, target.num_layers);
  constexpr int32_t kLeast = 7;  // with fewer layers some of the three are the same
  if (target.num_layers < kLeast) {
    throw Error(ErrorCode::format,
                "{}.{} is missing, and the target has {} layers: the usual three need {} or more",
                config.where(), kStateLayers, target.num_layers, kLeast);
  }
  return {2, target.num_layers / 2, target.num_layers - 3};
}

// Refuses a network for a target with another hidden size.
void require_hidden_size(const JsonView& config, int32_t own, const ModelConfig& target) {
  const auto field = config.find("target_hidden_size");
  const int64_t needed = field ? field->as_int(1, 65536) : own;
  if (needed == target.hidden_size) return;
  throw Error(ErrorCode::format,
              "{}.{}: the network reads states of {} columns, but the target's have {}; choose a drafter "
              "that was trained for this model",
              config.where(), field ? "target_hidden_size" : "hidden_size", needed, target.hidden_size);
}

FeaturesPart features(const ModelReader& reader, int32_t num_states, const ModelConfig& target) {
  FeaturesPart part;
  part.num_states = num_states;
  part.state_columns = target.hidden_size;
  part.reduction = reader.matrix("fc", num_states * target.hidden_size, reader.hidden());
  return part;
}

// Makes the first layer read the embedding beside the stream.
void pair_rows(const ModelReader& reader, bool norms_stream, LayerSpec& layer) {
  PairAttentionPart pair;
  pair.embedding_norm = layer.attention_norm;
  pair.norms_stream = norms_stream;
  pair.attention = layer.attention();
  for (MatrixPart& matrix : pair.attention.qkv) matrix.num_in *= 2;
  layer.attention_norm = reader.layer_norm(0, "hidden_norm");
  layer.mixer = std::move(pair);
}

bool flag_of(const JsonView& config, const ConfigFields& fields, std::string_view name) {
  const auto value = config.find(name);
  return value ? value->as_bool() : fields.bool_or(name, false);
}

// Reads the layers and the ends. The logits have a column for each token that the network can propose.
ModelConfig read_network(const JsonView& config, const ConfigFields& fields, const ModelConfig& target,
                         int32_t num_states) {
  ModelReader reader(fields, families::kLlama);
  ModelSpec& spec = reader.model();
  require_hidden_size(config, spec.hidden_size, target);
  spec.keeps_embedding = true;
  spec.embedding.num_rows = spec.vocab_size;
  spec.embedding.features = features(reader, num_states, target);
  spec.vocab_size =
      static_cast<int32_t>(config.int_or("draft_vocab_size", spec.vocab_size, 1, spec.vocab_size));
  spec.head.projection.num_out = spec.vocab_size;
  spec.head.tied = false;
  pair_rows(reader, flag_of(config, fields, "norm_before_residual"), spec.layers.front());
  finish_model(fields, spec);
  ModelConfig network;
  network.architecture = &families::kLlama;
  network.quantization = read_quantization_config(ConfigFields(config));
  network.num_layers = reader.num_layers();
  network.hidden_size = spec.hidden_size;
  network.vocab_size = spec.vocab_size;
  network.max_positions = reader.max_positions();
  network.heads = reader.heads();
  network.spec = std::move(spec);
  return network;
}

// Uses the target's embedding, which must have the hidden size of the network.
void borrow_embedding(const ModelConfig& target, const std::string& where, DraftNetworkConfig& config) {
  EmbeddingPart& embedding = config.network.spec.embedding;
  const EmbeddingPart& other = target.spec.embedding;
  const int32_t columns = other.projection ? other.projection->num_in : target.hidden_size;
  if (columns != config.network.hidden_size) {
    throw Error(
        ErrorCode::format,
        "{}: the tensor \"embed_tokens.weight\" is missing, and the target's embedding has {} columns "
        "where the network needs {}; choose a drafter that was trained for this model",
        where, columns, config.network.hidden_size);
  }
  embedding.key = other.key;
  embedding.num_rows = other.num_rows > 0 ? other.num_rows : target.vocab_size;
  config.borrows_embedding = true;
}

// Requires a row of the network's own embedding for each token of the target.
void require_rows(const ModelConfig& target, const std::string& where, const DraftNetworkConfig& config) {
  const int32_t rows = config.network.spec.embedding.num_rows;
  if (rows >= target.vocab_size) return;
  throw Error(
      ErrorCode::format,
      "{}: vocab_size is {}, but the target has {} tokens; choose a drafter that was trained for this "
      "model",
      where, rows, target.vocab_size);
}

// Uses the target's head, which must have the columns and the hidden size of the network.
void borrow_head(const ModelConfig& target, const std::string& where, DraftNetworkConfig& config) {
  const bool fits = config.network.vocab_size == target.vocab_size &&
                    config.network.hidden_size == target.hidden_size && config.token_map.empty();
  if (!fits) {
    throw Error(ErrorCode::format,
                "{}: the tensor \"lm_head.weight\" is missing, and the target's head has other columns than "
                "the network's {}; the network must have a head of its own",
                where, config.network.vocab_size);
  }
  config.network.spec.head.projection = target.spec.head.projection;
  config.borrows_head = true;
}

void refuse_parallel(const HasTensor& has, const std::string& where) {
  if (!has("mask_hidden")) return;
  throw Error(ErrorCode::unsupported,
              "{}: the tensor \"mask_hidden\", of networks that draft in parallel, is not supported; choose "
              "another drafter",
              where);
}

// Lets each column stand for the token of its number, which needs a column for each token of the target.
void drop_token_map(const ModelConfig& target, const std::string& where, DraftNetworkConfig& config) {
  if (config.network.vocab_size != target.vocab_size) {
    throw Error(ErrorCode::format,
                "{}: the tensor \"{}\" is missing, which gives the target's tokens of the {} columns of the "
                "network's logits; choose a drafter that has it",
                where, config.token_map, config.network.vocab_size);
  }
  config.token_map.clear();
}

}  // namespace

bool is_eagle3(const JsonView& config) {
  const auto type = config.find("speculators_model_type");
  if (type && type->as_string() != "eagle3") refuse(*type, "of these networks only eagle3 is supported");
  const std::string name = listed_class(config);
  const bool is_known = std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
  if (type || is_known) return true;
  if (name.find("Eagle") == std::string::npos) return false;
  throw Error(ErrorCode::unsupported,
              "{}.architectures: \"{}\" is not supported; of EAGLE's networks those of {} are",
              config.where(), printable(name, 64), kClasses.front());
}

DraftNetworkConfig read_eagle3_network(const JsonView& config, const ModelConfig& target) {
  const JsonView layer_config = config.find(kLayerConfig).value_or(config);
  refuse_variants(config);
  if (const auto nested = config.find(kEagleConfig)) refuse_variants(*nested);
  require_llama(layer_config);
  const ConfigFields fields(layer_config);
  DraftNetworkConfig out;
  out.kind = DraftNetworkKind::eagle3;
  out.state_layers = state_layers(config, target);
  out.network = read_network(config, fields, target, static_cast<int32_t>(out.state_layers.size()));
  out.token_map = "d2t";
  out.prefixes = {{"model.layers.0.", "midlayer."}};
  return out;
}

void fit_to_tensors(const HasTensor& has, const ModelConfig& target, const std::string& where,
                    DraftNetworkConfig& config) {
  refuse_parallel(has, where);
  if (!has("midlayer.self_attn.o_proj")) config.prefixes.clear();
  if (has(config.network.spec.embedding.key)) {
    require_rows(target, where, config);
  } else {
    borrow_embedding(target, where, config);
  }
  if (!has(config.token_map)) drop_token_map(target, where, config);
  if (!has(config.network.spec.head.projection.key)) borrow_head(target, where, config);
}

}  // namespace quire
