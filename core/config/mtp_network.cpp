#include "core/config/mtp_network.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/config/families/families.h"

namespace quire {
namespace {

// Names of the tensors of a family's first module. "{}" stands for the number of the target's layers.
struct ModuleNames {
  // Beginning of the names of the module's layer. With `feed_forward` it has attention alone, and another
  // layer has experts alone.
  std::string_view layer;
  std::string_view feed_forward;
  std::string_view embedding_norm;
  std::string_view state_norm;
  std::string_view projection;
  std::string_view last_norm;
  bool state_first = false;
};

constexpr ModuleNames kDeepseekNames = {"model.layers.{}.",        "",
                                        "model.layers.{}.enorm",   "model.layers.{}.hnorm",
                                        "model.layers.{}.eh_proj", "model.layers.{}.shared_head.norm"};
constexpr ModuleNames kLingNames = {"model.layers.{}.",        "",
                                    "model.layers.{}.enorm",   "model.layers.{}.hnorm",
                                    "model.layers.{}.eh_proj", "model.layers.{}.final_layernorm"};
constexpr ModuleNames kQwenNames = {"mtp.layers.0.",          "",       "mtp.pre_fc_norm_embedding",
                                    "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.norm"};
constexpr ModuleNames kMimoNames = {"model.mtp_layers.0.",
                                    "",
                                    "model.mtp_layers.0.token_layernorm",
                                    "model.mtp_layers.0.hidden_layernorm",
                                    "model.mtp_layers.0.input_proj",
                                    "model.mtp_layers.0.final_layernorm",
                                    true};
constexpr ModuleNames kNemotronNames = {"mtp.layers.0.",        "mtp.layers.1.",
                                        "mtp.layers.0.enorm",   "mtp.layers.0.hnorm",
                                        "mtp.layers.0.eh_proj", "mtp.layers.1.final_layernorm"};

struct ModuleFamily {
  const ArchitectureSpec* architecture;
  const ModuleNames* names;
  bool is_unannounced = false;  // published configurations do not say whether there is a module
};
// The row of Qwen2 is that of MiMo as well.
const std::array<ModuleFamily, 11> kFamilies = {{
    {&families::kDeepseekV3, &kDeepseekNames},
    {&families::kDeepseekV32, &kDeepseekNames},
    {&families::kGlm4Moe, &kDeepseekNames},
    {&families::kGlm4MoeLite, &kDeepseekNames},
    {&families::kGlmMoeDsa, &kDeepseekNames},
    {&families::kBailingHybrid, &kLingNames},
    {&families::kQwen3Next, &kQwenNames, true},
    {&families::kQwen35, &kQwenNames},
    {&families::kQwen35Moe, &kQwenNames},
    {&families::kQwen2, &kMimoNames},
    {&families::kNemotronH, &kNemotronNames},
}};

const ModuleFamily& family_of(const ConfigFields& fields, const ModelConfig& target) {
  const auto* const family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const ModuleFamily& row) {
    return row.architecture == target.architecture;
  });
  if (family != kFamilies.end()) return *family;
  throw Error(ErrorCode::unsupported,
              "{}: modules for multi-token prediction of {} are not supported; choose another drafter",
              fields.where(), target.architecture->name);
}

void require_announced(const ConfigFields& fields, const ModuleFamily& family) {
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

bool has_plain_attention(const LayerSpec& layer) {
  const auto* const attention = std::get_if<AttentionPart>(&layer.mixer);
  return attention != nullptr && attention->sliding_window == 0 && attention->chunk == 0 &&
         attention->kv_source < 0 && attention->selection_source < 0;
}

bool has_experts_alone(const LayerSpec& layer) {
  return std::holds_alternative<EmptyPart>(layer.mixer) && layer.experts() != nullptr;
}

// A module's layer is like some layer of the target, which becomes its spec.
class ModuleReader {
 public:
  ModuleReader(const ConfigFields& fields, const ModelConfig& target, const ModuleNames& names)
      : fields_(fields), target_(target), names_(names) {}

  DraftNetworkConfig read() {
    out_.kind = DraftNetworkKind::mtp;
    out_.state_layers = {target_.num_layers};
    out_.feeds_normed = out_.borrows_embedding = out_.borrows_head = true;
    spec_.hidden_size = target_.spec.hidden_size;
    spec_.vocab_size = target_.spec.vocab_size;
    spec_.embedding = target_.spec.embedding;
    spec_.embedding.features = features();
    spec_.head = target_.spec.head;
    spec_.head.norm = norm(names_.last_norm);
    add_layer(has_plain_attention, names_.layer);
    if (!names_.feed_forward.empty()) add_layer(has_experts_alone, names_.feed_forward);
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
    part.norm = target_.spec.head.norm;
    part.embedding_norm = norm(names_.embedding_norm);
    part.state_norm = norm(names_.state_norm);
    part.state_first = names_.state_first;
    MatrixPart& projection = part.projection.emplace();
    projection.key = name(names_.projection);
    projection.num_in = 2 * target_.hidden_size;
    projection.num_out = target_.hidden_size;
    return part;
  }

  // Adds the last layer of the target of this kind, whose names in the files begin with `place`.
  void add_layer(bool (*is_kind)(const LayerSpec&), std::string_view place) {
    const std::vector<LayerSpec>& layers = target_.spec.layers;
    const auto found = std::find_if(layers.rbegin(), layers.rend(), is_kind);
    if (found == layers.rend()) {
      throw Error(ErrorCode::unsupported,
                  "{}: no layer of the model is like that of its module for multi-token prediction, which is "
                  "supported only with attention over all tokens; choose another drafter",
                  fields_.where());
    }
    const auto index = static_cast<int32_t>(layers.rend() - found) - 1;
    spec_.layers.push_back(*found);
    out_.prefixes.push_back({layer_key(*target_.architecture, index, ""), name(place)});
    if (AttentionPart* const attention = spec_.layers.back().find_attention()) take_tables(*attention);
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
  const ModuleNames& names_;
  ModelSpec spec_;
  DraftNetworkConfig out_;
};

}  // namespace

DraftNetworkConfig read_mtp_network(const ConfigFields& fields, const ModelConfig& target) {
  const ModuleFamily& family = family_of(fields, target);
  require_announced(fields, family);
  require_shared_embedding(fields);
  require_known_layers(fields);
  return ModuleReader(fields, target, *family.names).read();
}

}  // namespace quire
