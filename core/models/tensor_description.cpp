#include "core/models/tensor_description.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/loader/weight_formats.h"
#include "core/tensor/dtype.h"

namespace quire {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

int32_t layer_of(std::string_view key, std::string_view layer_prefix) {
  if (key.substr(0, layer_prefix.size()) != layer_prefix) return -1;
  const std::string_view rest = key.substr(layer_prefix.size());
  int32_t number = -1;
  const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return read.ec == std::errc() ? number : -1;
}

TensorDescription describe_matrix(const WeightDirectory& directory, const TensorOwner& owner,
                                  std::string_view layer_prefix) {
  const LayerTensors layer(directory, owner.key);
  TensorDescription out;
  out.name = owner.key;
  out.format = owner.format->name;
  const StoredType& type = *layer.at(owner.format->suffixes[0]).tensor->type;
  if (type.has_blocks()) out.format = lower_case(type.name);
  out.shape = owner.format->describe(layer);
  out.layer = layer_of(owner.key, layer_prefix);
  return out;
}

TensorDescription describe_plain(const std::string& key, const std::string& suffix,
                                 const WeightDirectory::Entry& entry, std::string_view layer_prefix) {
  TensorDescription out;
  out.name = suffix.empty() || suffix == "weight" ? key : key + "." + suffix;
  out.format = lower_case(entry.tensor->type->name);
  out.shape = entry.tensor->shape;
  out.stored_bytes = static_cast<int64_t>(entry.tensor->size_bytes);
  out.layer = layer_of(key, layer_prefix);
  return out;
}

// True if the tensor is the bias of a quantized matrix or a scale of its activations. These count as parts of
// the matrix.
bool is_extra_of_matrix(const WeightDirectory& directory, const std::string& key, std::string_view suffix) {
  if (suffix != "bias" && suffix != "input_scale" && suffix != "input_scale_ub" &&
      suffix != "input_global_scale" && suffix != "activation_scale")
    return false;
  const FormatRow* format = find_format(LayerTensors(directory, key));
  return format != nullptr && format->name != "dense";
}

}  // namespace

std::vector<TensorDescription> describe_tensors(const WeightDirectory& directory,
                                                std::string_view layer_prefix) {
  std::map<std::string, TensorDescription> by_name;
  std::map<std::string, int64_t> bias_bytes;
  for (const WeightDirectory::Entry& entry : directory.entries()) {
    const std::string& name = entry.tensor->name;
    const auto bytes = static_cast<int64_t>(entry.tensor->size_bytes);
    if (const auto owner = find_owner(directory, name)) {
      const auto found =
          by_name.try_emplace(owner->key, describe_matrix(directory, *owner, layer_prefix)).first;
      found->second.stored_bytes += bytes;
      continue;
    }
    const size_t dot = name.rfind('.');
    const std::string key = dot == std::string::npos ? name : name.substr(0, dot);
    const std::string suffix = dot == std::string::npos ? "" : name.substr(dot + 1);
    if (is_extra_of_matrix(directory, key, suffix)) {
      bias_bytes[key] += bytes;
      continue;
    }
    TensorDescription plain = describe_plain(key, suffix, entry, layer_prefix);
    by_name.emplace(name, std::move(plain));
  }
  std::vector<TensorDescription> out;
  for (auto& [name, description] : by_name) {
    const auto bias = bias_bytes.find(name);
    if (bias != bias_bytes.end()) description.stored_bytes += bias->second;
    out.push_back(std::move(description));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.layer != b.layer && (a.layer < b.layer); });
  return out;
}

}  // namespace quire
