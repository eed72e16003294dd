#include "core/models/gguf_tensors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "core/models/gguf_computed.h"

namespace quire {
namespace {

using Placed = WeightDirectory::PlacedTensor;
using RowOrder = std::shared_ptr<const std::vector<int32_t>>;

constexpr std::string_view kLayers = "blk.";
// Tensors that the configuration is made from, and inputs of products that only other programs need.
constexpr std::array<std::string_view, 4> kUnused = {"rope_freqs.weight", "rope_factors_long.weight",
                                                     "rope_factors_short.weight", ".input_scale"};

// Parts of a layer whose names no class changes. Names of TensorKeys are in `standard_name`.
constexpr auto kParts = std::to_array<GgufPart>({
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {"ffn_gate_up_exps", "mlp.experts.gate_up_proj", true},
    {"ffn_up_exps", "mlp.experts.{}.up_proj"},
    {"ffn_down_exps", "mlp.experts.{}.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    {"exp_probs_b", "mlp.gate.e_score_correction_bias", true},
    {"attn_sinks", "self_attn.sinks", true},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"nextn.eh_proj", "eh_proj"},
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.shared_head_norm", "shared_head.norm"},
    {"nextn.shared_head_head", "shared_head.head"},
    {"nextn.embed_tokens", "embed_tokens"},
});

// Returns the name of a part that TensorKeys has; empty if it has none.
std::string standard_name(std::string_view part, const TensorKeys& keys) {
  const std::array<std::pair<std::string_view, std::string_view>, 12> names = {{
      {"attn_norm", keys.attention_norm},
      {"attn_q", keys.query},
      {"attn_k", keys.key},
      {"attn_v", keys.value},
      {"attn_qkv", keys.qkv.empty() ? std::string_view("self_attn.qkv_proj") : keys.qkv},
      {"attn_output", keys.attention_output},
      {"attn_q_norm", keys.q_norm},
      {"attn_k_norm", keys.k_norm},
      {"ffn_norm", keys.mlp_norm},
      {"ffn_gate", keys.gate},
      {"ffn_up", keys.up},
      {"ffn_down", keys.down},
  }};
  for (const auto& [stored, name] : names)
    if (stored == part) return std::string(name);
  return {};
}

// A tensor name in parts: "blk.3.attn_q.weight" is layer 3, "attn_q" and ".weight".
struct SplitName {
  int32_t layer = -1;  // -1: outside of layers
  std::string part;
  std::string suffix;  // from the last dot on
};

SplitName split(std::string_view name) {
  SplitName out;
  if (name.starts_with(kLayers)) {
    const char* const first = name.data() + kLayers.size();
    const char* const last = name.data() + name.size();
    const auto [end, error] = std::from_chars(first, last, out.layer);
    if (error != std::errc() || end == last || *end != '.') out.layer = -1;
    if (out.layer >= 0) name.remove_prefix(static_cast<size_t>(end + 1 - name.data()));
  }
  const size_t dot = std::min(name.rfind('.'), name.size());
  out.part = name.substr(0, dot);
  out.suffix = name.substr(dot);
  return out;
}

// Returns the order that puts both rows of each rotary pair half a head apart: row h * d + i + j * d / 2 is
// stored as row h * d + 2 * i + j, for heads of d rows.
RowOrder paired_order(int64_t rows, int64_t heads) {
  auto order = std::make_shared<std::vector<int32_t>>();
  const auto head = static_cast<int32_t>(rows / heads);
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t within = row % head, half = head / 2;
    order->push_back(row - within + within % half * 2 + within / half);
  }
  return order;
}

class Translator {
 public:
  Translator(const GgufModel& model, const GgufFamily& family)
      : model_(model),
        family_(family),
        row_(class_of(family)),
        num_blocks_(model.num_layers() + (family.has_module ? 1 : 0)) {}

  // Adds a tensor of the model's file number `file`.
  void add(const TensorInfo& stored, size_t file) {
    if (std::any_of(kUnused.begin(), kUnused.end(), [&](auto name) { return stored.name.ends_with(name); }))
      return;
    const SplitName name = split(stored.name);
    TensorInfo tensor = stored;
    if (name.layer < 0) {
      tensor.name = outer_name(name);
      take_one_away(tensor);
    } else if (name.layer < num_blocks_) {
      return add_part(name, std::move(tensor), file);
    }
    placed_.push_back({std::move(tensor), file});
  }
  // Adds the tensors that are made of several, and returns all. Computed ones are in `computed()`, which
  // comes after the files of the model.
  std::vector<Placed> take() {
    // Some files have the whole matrix too.
    for (const auto& [layer, parts] : latents_)
      if (!model_.has(fmt::format("{}{}.attn_kv_b.weight", kLayers, layer))) add_latent(layer, parts);
    return std::move(placed_);
  }
  std::shared_ptr<const File> computed() const { return computed_; }

 private:
  std::string outer_name(const SplitName& name) const {
    const TensorKeys& keys = row_.keys;
    for (const GgufPart& part : family_.parts)
      if (part.stored == name.part) return std::string(part.name) + name.suffix;
    if (name.part == "token_embd") return std::string(keys.embedding) + name.suffix;
    if (name.part == "output") return std::string(keys.head) + name.suffix;
    if (name.part == "output_norm") return std::string(keys.final_norm) + name.suffix;
    return name.part + name.suffix;
  }

  // Returns the part of a matrix of one expert, "ffn_gate.7", as older files have it; nothing for other
  // parts.
  std::optional<std::string> name_of_one_expert(const SplitName& name, const TensorInfo& tensor) const {
    const size_t dot = name.part.rfind('.');
    const bool is_number = dot != std::string::npos && dot + 1 < name.part.size() &&
                           name.part.find_first_not_of("0123456789", dot + 1) == std::string::npos;
    if (!is_number) return std::nullopt;
    SplitName stack = name;
    stack.part = name.part.substr(0, dot) + "_exps";
    const GgufPart part = find_part(stack, tensor);
    const size_t number = part.name.find("{}");
    return std::string(part.name.substr(0, number)) + name.part.substr(dot + 1) +
           std::string(part.name.substr(number + 2));
  }

  // Returns the name of a part within a layer. Throws if the class has no such part.
  GgufPart find_part(const SplitName& name, const TensorInfo& tensor) const {
    const auto is_it = [&](const GgufPart& part) { return part.stored == name.part; };
    const auto own = std::find_if(family_.parts.begin(), family_.parts.end(), is_it);
    if (own != family_.parts.end()) return *own;
    const auto* const common = std::find_if(kParts.begin(), kParts.end(), is_it);
    if (common != kParts.end()) return *common;
    throw Error(ErrorCode::unsupported, "{}: tensor \"{}\" is no part of {} that this build reads",
                model_.path(), printable(tensor.name), family_.class_name);
  }

  void add_part(const SplitName& name, TensorInfo tensor, size_t file) {
    const std::string prefix = fmt::format("{}{}.", row_.keys.layers, name.layer);
    const bool is_own = std::any_of(family_.parts.begin(), family_.parts.end(),
                                    [&](const GgufPart& part) { return part.stored == name.part; });
    std::string standard = is_own ? std::string() : standard_name(name.part, row_.keys);
    if (name.part == "ffn_up" && !row_.keys.gate_up.empty() && !has_gate(name.layer))
      standard = row_.keys.gate_up;
    if (!standard.empty()) {
      tensor.name = prefix + standard + name.suffix;
      if (name.suffix != ".scale") order_rows(name.part, tensor);
      take_one_away(tensor);
      placed_.push_back({std::move(tensor), file});
      return;
    }
    if (const auto expert = name_of_one_expert(name, tensor)) {
      tensor.name = prefix + *expert + name.suffix;
      placed_.push_back({std::move(tensor), file});
      return;
    }
    if (name.part == "attn_k_b" || name.part == "attn_v_b") {
      LatentParts& parts = latents_[name.layer];
      (name.part == "attn_k_b" ? parts.keys : parts.values) = stored_in(tensor, file);
      return;
    }
    const GgufPart part = find_part(name, tensor);
    const size_t number = part.name.find("{}");
    if (number != std::string_view::npos) return add_experts(prefix, part, name.suffix, tensor, file);
    if (part.is_decay) {
      tensor = add_logarithm(stored_in(tensor, file), *computed_);
      file = model_.files().size();
    }
    tensor.name = prefix + std::string(part.name) + (part.is_bare ? std::string() : name.suffix);
    if (name.part == "ffn_gate_inp_shexp" && tensor.shape.size() == 1)
      tensor.shape.insert(tensor.shape.begin(), 1);
    if (name.part != "ssm_norm") take_one_away(tensor);
    placed_.push_back({std::move(tensor), file});
  }

  // The two tensors that expand a latent.
  struct LatentParts {
    std::optional<StoredIn> keys;
    std::optional<StoredIn> values;
  };

  StoredIn stored_in(const TensorInfo& tensor, size_t file) const {
    return {tensor, model_.files()[file].file()};
  }

  void add_latent(int32_t layer, const LatentParts& parts) {
    if (!parts.keys || !parts.values)
      throw Error(ErrorCode::format, "{}: layer {} has one of \"attn_k_b\" and \"attn_v_b\", but needs both",
                  model_.path(), layer);
    TensorInfo tensor = add_latent_expansion(*parts.keys, *parts.values, *computed_);
    tensor.name = fmt::format("{}{}.self_attn.kv_b_proj.weight", row_.keys.layers, layer);
    placed_.push_back({std::move(tensor), model_.files().size()});
  }

  // Cuts a stack into the matrices, biases or scales of its experts.
  void add_experts(const std::string& prefix, const GgufPart& part, const std::string& suffix,
                   const TensorInfo& stack, size_t file) {
    const auto experts = static_cast<uint64_t>(stack.shape.empty() ? 0 : stack.shape.front());
    if (experts == 0 || experts > kernels::kMaxExperts)
      throw Error(ErrorCode::format, "{}: tensor \"{}\": the shape {} is not that of 1 to {} experts",
                  model_.path(), printable(stack.name), shape_text(stack.shape), kernels::kMaxExperts);
    for (uint64_t expert = 0; expert < experts; ++expert) {
      TensorInfo one = stack;
      const size_t number = part.name.find("{}");
      one.name = prefix + std::string(part.name.substr(0, number)) + std::to_string(expert) +
                 std::string(part.name.substr(number + 2)) + suffix;
      one.shape.erase(one.shape.begin());
      if (one.shape.empty()) one.shape = {1};
      one.size_bytes = stack.size_bytes / experts;
      one.offset_bytes += expert * one.size_bytes;
      placed_.push_back({std::move(one), file});
    }
  }

  bool has_gate(int32_t layer) const {
    return model_.has(fmt::format("{}{}.ffn_gate.weight", kLayers, layer));
  }

  void order_rows(std::string_view part, TensorInfo& tensor) const {
    if (!family_.has_rotary_pairs || row_.rope_style != kernels::RopeStyle::neox_halves) return;
    if (part != "attn_q" && part != "attn_k") return;
    const std::string_view field = part == "attn_q" ? "attention.head_count" : "attention.head_count_kv";
    const auto heads = model_.same_in_layers(field, GgufModel::Zeros::are_absent);
    const int64_t count = heads ? *heads : model_.same_in_layers("attention.head_count").value_or(0);
    const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    if (count < 1 || rows % (2 * count) != 0 || rows > INT32_MAX)
      throw Error(ErrorCode::format, "{}: tensor \"{}\": {} rows are not {} heads of an even size",
                  model_.path(), printable(tensor.name), rows, count);
    RowOrder& order = orders_[{rows, count}];
    if (order == nullptr) order = paired_order(rows, count);
    tensor.row_order = order;
  }

  void take_one_away(TensorInfo& tensor) const {
    if (family_.norms_have_one && tensor.shape.size() == 1 && tensor.name.ends_with("norm.weight"))
      tensor.added = 1.0f;
  }

  const GgufModel& model_;
  const GgufFamily& family_;
  const ArchitectureSpec& row_;
  const int32_t num_blocks_;  // layers, and the first module if it is read
  std::vector<Placed> placed_;
  std::map<int32_t, LatentParts> latents_;  // by layer
  const std::shared_ptr<ComputedFile> computed_ = std::make_shared<ComputedFile>(model_.path());
  mutable std::map<std::pair<int64_t, int64_t>, RowOrder> orders_;  // by rows and heads
};

}  // namespace

WeightDirectory gguf_tensors(const GgufModel& model, const GgufFamily& family) {
  Translator translator(model, family);
  std::vector<std::shared_ptr<const File>> files;
  for (const GgufFile& file : model.files()) {
    for (const TensorInfo& tensor : file.tensors()) translator.add(tensor, files.size());
    files.push_back(file.file());
  }
  files.push_back(translator.computed());
  return WeightDirectory::of_tensors(model.path(), std::move(files), translator.take());
}

}  // namespace quire
