#include "core/config/mtp_network.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/config/mtp_families.h"

namespace quire {
namespace {

const MtpFamily& family_of(const ConfigFields& fields, const ModelConfig& target) {
  if (const MtpFamily* const family = find_mtp_family(target.architecture)) return *family;
  throw Error(ErrorCode::unsupported,
              "{}: modules for multi-token prediction of {} are not supported; choose another drafter",
              fields.where(), target.architecture->name);
}

void require_announced(const ConfigFields& fields, const MtpFamily& family) {
  constexpr FieldNames kCounts = {"mtp_num_hidden_layers", "num_nextn_predict_layers"};
  const auto count = fields.find(kCounts);
  if (count ? count->as_int(0, 64) > 0 : family.is_unannounced) return;
  throw Error(ErrorCode::unsupported,
              "{}: the model has no module for multi-token prediction, by {} and {}; choose another drafter",
              fields.where(), kCounts[0], kCounts[1]);
}

void require_shared_embedding(const ConfigFields& fields) {
  constexpr std::string_view kField = "mtp_use_dedicated_embeddings";
  if (!fields.bool_or(kField, false)) return;
  throw Error(ErrorCode::unsupported,
              "{}.{}: a module with an embedding of its own is not supported; choose another drafter",
              fields.where(), kField);
}

// Modules of Nemotron-H list their layers: attention, then experts, is the only list in use.
void require_known_layers(const ConfigFields& fields) {
  const auto refuse = [](const JsonView& list) {
    throw Error(ErrorCode::unsupported,
                "{}: only a layer of attention and then one of experts is supported; choose another drafter",
                list.where());
  };
  const auto letters = fields.find("mtp_hybrid_override_pattern");
  if (letters && letters->as_string() != "*E") refuse(*letters);
  const auto words = fields.find("mtp_layers_block_type");
  if (!words) return;
  std::vector<std::string> kinds;
  for (const JsonView& word : words->items()) kinds.push_back(word.as_string());
  const std::vector<std::string> known = {"attention", "moe"}, renamed = {"full_attention", "moe"};
  if (kinds != known && kinds != renamed) refuse(*words);
}

// Returns a name of the module in a target with so many layers.
std::string numbered(std::string_view name, int32_t num_layers) {
  const size_t at = name.find("{}");
  if (at == std::string_view::npos) return std::string(name);
  return fmt::format("{}{}{}", name.substr(0, at), num_layers, name.substr(at + 2));
}

// Returns the type of attention that the configuration lists for the first module: in a list of the modules,
// or after the types of the target's layers.
MtpAttention listed_attention(const ConfigFields& fields, int32_t num_layers) {
  const auto refuse = [](const std::string& where, std::string_view fault) {
    throw Error(ErrorCode::unsupported, "{}: {}; choose another drafter", where, fault);
  };
  const auto of_modules = fields.find("mtp_layer_types"), of_layers = fields.find("layer_types");
  const std::optional<JsonView>& list = of_modules ? of_modules : of_layers;
  const std::vector<JsonView> types = list ? list->items() : std::vector<JsonView>();
  const size_t first = of_modules ? 0U : static_cast<size_t>(num_layers);
  if (types.size() <= first)
    refuse(fields.where(), "neither mtp_layer_types nor layer_types has the attention of the module");
  const std::string& type = types[first].as_string();
  if (type == "sliding_attention") return MtpAttention::windowed;
  if (type != "full_attention")
    refuse(types[first].where(),
           fmt::format("\"{}\" is not supported; supported are full_attention and sliding_attention",
                       printable(type, 32)));
  return MtpAttention::full;
}

bool has_own_keys(const AttentionPart& attention) {
  return attention.chunk == 0 && attention.kv_source < 0 && attention.selection_source < 0;
}

bool has_plain_attention(const LayerSpec& layer) {
  const auto* const attention = std::get_if<AttentionPart>(&layer.mixer);
  return attention != nullptr && attention->sliding_window == 0 && has_own_keys(*attention);
}

bool has_window(const LayerSpec& layer) {
  const auto* const attention = std::get_if<AttentionPart>(&layer.mixer);
  return attention != nullptr && attention->sliding_window > 0 && has_own_keys(*attention);
}

bool has_dense_mlp(const LayerSpec& layer) {
  return std::holds_alternative<MlpPart>(layer.feed_forward);
}

bool has_experts_alone(const LayerSpec& layer) {
  return std::holds_alternative<EmptyPart>(layer.mixer) && layer.experts() != nullptr;
}

// What a layer of the target must have to be like that of the module, and its words in a message.
struct Likeness {
  bool (*is_like)(const LayerSpec&);
  std::string_view words;
  // Lists with an entry for each layer, then one for each module, which are equal.
  std::array<std::string_view, 2> lists = {};
};
constexpr Likeness kFull = {
    has_plain_attention, "attention over all tokens", {"rope_theta", "partial_rotary_factors"}};
constexpr Likeness kWindowed = {
    has_window, "attention with a window", {"rope_theta", "partial_rotary_factors"}};
constexpr Likeness kDense = {has_dense_mlp, "a dense MLP", {"swiglu_limits_shared"}};
constexpr Likeness kExperts = {has_experts_alone, "experts alone"};

// Returns an entry of a list of numbers; 0 if it is null.
double number_at(const std::vector<JsonView>& list, size_t index) {
  return list[index].is_null() ? 0.0 : list[index].as_number(-1e12, 1e12);
}

// A module's layer is like some layer of the target, which becomes its spec. Its MLP may be that of another.
class ModuleReader {
 public:
  ModuleReader(const ConfigFields& fields, const ModelConfig& target, const MtpFamily& family)
      : fields_(fields), target_(target), family_(family), names_(*family.names) {}

  DraftNetworkConfig read() {
    out_.kind = DraftNetworkKind::mtp;
    out_.state_layers = {target_.num_layers};
    out_.feeds_normed = family_.reads_normed;
    out_.borrows_embedding = true;
    spec_.hidden_size = target_.spec.hidden_size;
    spec_.vocab_size = target_.spec.vocab_size;
    spec_.embedding = target_.spec.embedding;
    spec_.embedding.features = features();
    read_head();
    read_layers();
    out_.network = target_;
    out_.network.num_layers = static_cast<int32_t>(spec_.layers.size());
    out_.network.heads = spec_.layers.front().attention().heads;
    out_.network.spec = std::move(spec_);
    return std::move(out_);
  }

 private:
  std::string name(std::string_view of_module) const { return numbered(of_module, target_.num_layers); }

  // Makes a norm like the last one of the target.
  NormPart norm(std::string_view of_module) const {
    NormPart norm = target_.spec.head.norm;
    norm.weight.name = name(of_module) + ".weight";
    return norm;
  }

  FeaturesPart features() const {
    FeaturesPart part;
    part.state_columns = target_.hidden_size;
    if (family_.reads_normed) part.norm = target_.spec.head.norm;
    part.embedding_norm = norm(names_.embedding_norm);
    part.state_norm = norm(names_.state_norm);
    part.state_first = names_.state_first;
    MatrixPart& projection = part.projection.emplace();
    projection.key = name(names_.projection);
    projection.num_in = 2 * target_.hidden_size;
    projection.num_out = target_.hidden_size;
    return part;
  }

  void read_head() {
    spec_.head = target_.spec.head;
    if (!names_.last_norm.empty()) spec_.head.norm = norm(names_.last_norm);
    out_.borrows_head = names_.head.empty();
    if (out_.borrows_head) return;
    spec_.head.projection.key = name(names_.head);
    spec_.head.tied = false;
  }

  void read_layers() {
    const MtpAttention attention = family_.attention == MtpAttention::listed
                                       ? listed_attention(fields_, target_.num_layers)
                                       : family_.attention;
    LayerSpec& layer = add_layer(attention == MtpAttention::windowed ? kWindowed : kFull, names_.layer);
    take_tables(layer.attention());
    require_listed_window(layer.attention());
    if (family_.is_dense) layer.feed_forward = find(kDense, names_.layer).feed_forward;
    if (!names_.feed_forward_norm.empty())
      layer.feed_forward_norm.weight.name = name(names_.feed_forward_norm) + ".weight";
    if (!names_.feed_forward.empty()) add_layer(kExperts, names_.feed_forward);
  }

  // Returns whether an entry of a list is that of the first module; true if the list has none for modules.
  bool has_listed(std::string_view field, size_t layer) const {
    const auto list = field.empty() ? std::nullopt : fields_.find(field);
    const auto of_module = static_cast<size_t>(target_.num_layers);
    if (!list || !list->is_array() || list->elements().size() <= of_module) return true;
    const std::vector<JsonView> entries = list->items();
    return number_at(entries, layer) == number_at(entries, of_module);
  }

  bool is_like(const Likeness& kind, size_t layer) const {
    return kind.is_like(target_.spec.layers[layer]) &&
           std::all_of(kind.lists.begin(), kind.lists.end(),
                       [&](std::string_view list) { return has_listed(list, layer); });
  }

  // Returns the last layer of the target of this kind, whose names in the files begin with `place`.
  const LayerSpec& find(const Likeness& kind, std::string_view place) {
    const std::vector<LayerSpec>& layers = target_.spec.layers;
    for (size_t i = layers.size(); i-- > 0;) {
      if (!is_like(kind, i)) continue;
      out_.prefixes.push_back({layer_key(*target_.architecture, static_cast<int32_t>(i), ""), name(place)});
      return layers[i];
    }
    throw Error(ErrorCode::unsupported,
                "{}: no layer of the model is like that of its module for multi-token prediction, which has "
                "{}; choose another drafter",
                fields_.where(), kind.words);
  }

  LayerSpec& add_layer(const Likeness& kind, std::string_view place) {
    spec_.layers.push_back(find(kind, place));
    return spec_.layers.back();
  }

  // Requires the window that the configuration lists for the first module to be that of the target's layers.
  void require_listed_window(const AttentionPart& attention) const {
    const auto list = fields_.find("mtp_sliding_windows");
    if (!list || list->elements().empty() || attention.sliding_window == 0) return;
    const JsonView window = list->items().front();
    if (!window.is_null() && window.as_int(0, 1 << 30) == attention.sliding_window) return;
    throw Error(ErrorCode::unsupported,
                "{}: another window than that of the model, {}, is not supported; choose another drafter",
                window.where(), attention.sliding_window);
  }

  // Gives the network the RoPE and the KV spec of its attention, and no other.
  void take_tables(AttentionPart& attention) {
    spec_.kvs = {target_.spec.kvs.at(static_cast<size_t>(attention.kv_idx))};
    attention.kv_idx = 0;
    if (attention.rope_idx < 0) return;
    spec_.ropes = {target_.spec.ropes.at(static_cast<size_t>(attention.rope_idx))};
    attention.rope_idx = 0;
  }

  const ConfigFields& fields_;
  const ModelConfig& target_;
  const MtpFamily& family_;
  const MtpNames& names_;
  ModelSpec spec_;
  DraftNetworkConfig out_;
};

}  // namespace

DraftNetworkConfig read_mtp_network(const ConfigFields& fields, const ModelConfig& target) {
  const MtpFamily& family = family_of(fields, target);
  require_announced(fields, family);
  require_shared_embedding(fields);
  require_known_layers(fields);
  return ModuleReader(fields, target, family).read();
}

}  // namespace quire
