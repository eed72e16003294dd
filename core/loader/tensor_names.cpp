#include "core/loader/tensor_names.h"

#include <algorithm>
#include <array>

#include "core/base/checked_math.h"
#include "core/loader/mistral_names.h"
#include "core/loader/weight_formats.h"

namespace quire {
namespace {

// Prefixes of a text model within a model of several kinds of input, and of a model without its base.
constexpr std::array<std::string_view, 7> kWrappers = {
    "", "language_model.", "model.language_model.", "model.text_model.", "text_model.", "llm.", "model."};

struct FusedMatrix {
  std::string_view name;
  std::array<std::string_view, 3> slices;  // from the first output on; unused entries are empty
};
constexpr std::array<FusedMatrix, 3> kFused = {{
    {"self_attn.qkv_proj", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
    {"mlp.gate_up_proj", {"mlp.gate_proj", "mlp.up_proj", ""}},
    {"mlp.shared_experts.gate_up_proj", {"mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", ""}},
}};

std::string with_ending(const std::string& key, std::string_view old_ending, std::string_view ending) {
  return key.substr(0, key.size() - old_ending.size()) + std::string(ending);
}

bool has_ending(std::string_view key, std::string_view ending) {
  return !ending.empty() && key.ends_with(ending) && key.size() > ending.size() &&
         key[key.size() - ending.size() - 1] == '.';
}

// Name of a matrix of one expert: "...experts.7.up_proj".
struct ExpertName {
  std::string stack;  // "...experts."
  int32_t expert = 0;
  std::string_view matrix;  // "up_proj", borrowed
};

std::optional<ExpertName> expert_name(std::string_view key) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = key.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t first = at + kExperts.size(), end = key.find('.', first);
  if (end == std::string_view::npos || end == first || end - first > 4) return std::nullopt;
  ExpertName name = {std::string(key.substr(0, first)), 0, key.substr(end + 1)};
  for (const char digit : key.substr(first, end - first)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    name.expert = 10 * name.expert + (digit - '0');
  }
  for (const std::string_view matrix : {"gate_proj", "up_proj", "down_proj"})
    if (name.matrix == matrix) return name;
  return std::nullopt;
}

// Returns a base prefix and what remains of it without its first parts: "model.decoder.", "decoder.", "".
std::vector<std::string> ends_of_base(std::string base) {
  std::vector<std::string> ends = {base};
  while (!base.empty()) {
    base.erase(0, base.find('.') + 1);
    ends.push_back(base);
  }
  return ends;
}

}  // namespace

TensorNames::TensorNames(const WeightDirectory& directory, const TensorKeys& keys, NamesOf names)
    : directory_(directory),
      names_of_(names),
      base_(keys.embedding.substr(0, keys.embedding.rfind('.') + 1)),
      layers_(keys.layers.starts_with(base_) ? keys.layers.substr(base_.size()) : keys.layers),
      stored_prefix_(base_) {
  if (names_of_ == NamesOf::mistral) {
    stored_prefix_.clear();
    return;
  }
  const std::string embedding = std::string(keys.embedding.substr(base_.size())) + ".weight";
  for (const std::string_view wrapper : kWrappers) {
    for (const std::string& base : ends_of_base(base_)) {
      const std::string prefix = std::string(wrapper) + base;
      if (!directory_.has(prefix + embedding)) continue;
      stored_prefix_ = prefix;
      wrapper_ = wrapper;
      return;
    }
  }
}

std::string TensorNames::stored(const std::string& name) const {
  if (names_of_ == NamesOf::mistral) return mistral_name(name);
  const bool is_in_base = name.starts_with(base_);
  const std::string inner = is_in_base ? name.substr(base_.size()) : name;
  for (const std::string& prefix : {is_in_base ? stored_prefix_ : std::string(), wrapper_, base_}) {
    std::string candidate = prefix + inner;
    if (holds(candidate)) return candidate;
  }
  return name;
}

bool TensorNames::holds(const std::string& name) const {
  return directory_.has(name) || has_linear(directory_, name);
}

std::optional<int32_t> TensorNames::outputs_of(const std::string& key) const {
  const LayerTensors layer(directory_, key);
  const FormatRow* format = find_format(layer);
  if (format == nullptr) return std::nullopt;
  const std::vector<int64_t> shape = format->describe(layer);
  if (shape.size() != 2) return std::nullopt;
  return checked_cast<int32_t>(shape.front(), key);
}

LinearRequest TensorNames::with_fused_source(LinearRequest request) const {
  if (request.part.num_experts > 0 || !request.is_whole()) return request;
  for (const FusedMatrix& fused : kFused) {
    const auto* const slice =
        std::find_if(fused.slices.begin(), fused.slices.end(),
                     [&](std::string_view name) { return has_ending(request.key, name); });
    if (slice == fused.slices.end()) continue;
    if (holds(request.key)) return request;
    const std::string key = stored(with_ending(request.key, *slice, fused.name));
    const auto outputs = outputs_of(key);
    const bool is_first = slice == fused.slices.begin();
    const bool is_key = !fused.slices.back().empty() && slice == fused.slices.begin() + 1;
    const int64_t after = is_key ? 2 * int64_t{request.num_out} : request.num_out;
    if (!outputs || *outputs < after) return request;
    request.key = key;
    request.part.num_stored = *outputs;
    request.part.first = is_first ? 0 : static_cast<int32_t>(*outputs - after);
    return request;
  }
  return with_stack(std::move(request));
}

LinearRequest TensorNames::with_stack(LinearRequest request) const {
  const auto name = expert_name(request.key);
  if (!name || holds(request.key)) return request;
  const bool is_down = name->matrix == "down_proj", is_up = name->matrix == "up_proj";
  const std::string key = stored(name->stack + (is_down ? "down_proj" : "gate_up_proj"));
  if (!directory_.has(key)) return request;
  const std::vector<int64_t>& shape = directory_.at(key).tensor->shape;
  if (shape.size() != 3 || name->expert >= shape.front()) return request;
  request.key = key;
  request.part.num_experts = checked_cast<int32_t>(shape.front(), key);
  request.part.expert = name->expert;
  if (is_down) return request;
  request.part.num_stored = 2 * request.num_out;
  request.part.first = is_up ? request.num_out : 0;
  return request;
}

std::vector<MatrixSlice> TensorNames::slices_of(const std::string& key) const {
  for (const FusedMatrix& fused : kFused) {
    if (!has_ending(key, fused.name)) continue;
    if (holds(stored(key))) return {};
    std::vector<MatrixSlice> slices;
    for (const std::string_view name : fused.slices) {
      if (name.empty()) continue;
      const std::string slice = with_ending(key, fused.name, name);
      const auto outputs = outputs_of(stored(slice));
      if (!outputs) return {};
      slices.push_back({slice, *outputs});
    }
    return slices;
  }
  return {};
}

}  // namespace quire
