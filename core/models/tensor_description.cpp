#include "core/models/tensor_description.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/tensor/dtype.h"

namespace quire {
namespace {

// The tensors of one key, which may be one matrix in several pieces.
using Parts = std::map<std::string, WeightDirectory::Entry, std::less<>>;

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

bool is_fp8(const Parts& parts) {
  const auto weight = parts.find("weight");
  return weight != parts.end() && weight->second.tensor->type->dtype == DType::f8_e4m3;
}

bool is_quantized(const Parts& parts) {
  return parts.contains("q_weight") || parts.contains("qweight") || is_fp8(parts);
}

// Inputs and outputs of a quantized matrix, by the tensors that tell them.
std::vector<int64_t> quantized_shape(const Parts& parts) {
  const auto extent = [&](std::string_view suffix, size_t axis) -> int64_t {
    const auto found = parts.find(suffix);
    if (found == parts.end() || found->second.tensor->shape.size() <= axis) return 0;
    return found->second.tensor->shape[axis];
  };
  if (is_fp8(parts)) return parts.find("weight")->second.tensor->shape;
  if (parts.contains("q_weight")) return {extent("q_weight", 1), extent("q_invperm", 0)};
  return {extent("qweight", 1), extent("qweight", 0) * 8};
}

TensorDescription describe_matrix(const std::string& key, const Parts& parts, std::string_view layer_prefix) {
  TensorDescription out;
  out.name = key;
  out.format = parts.contains("q_weight") ? "exl2" : parts.contains("qweight") ? "gptq" : "fp8";
  out.shape = quantized_shape(parts);
  out.layer = layer_of(key, layer_prefix);
  for (const auto& [suffix, entry] : parts)
    out.stored_bytes += static_cast<int64_t>(entry.tensor->size_bytes);
  return out;
}

TensorDescription describe_plain(const std::string& key, const std::string& suffix,
                                 const WeightDirectory::Entry& entry, std::string_view layer_prefix) {
  TensorDescription out;
  out.name = suffix == "weight" ? key : key + "." + suffix;
  out.format = lower_case(entry.tensor->type->name);
  out.shape = entry.tensor->shape;
  out.stored_bytes = static_cast<int64_t>(entry.tensor->size_bytes);
  out.layer = layer_of(key, layer_prefix);
  return out;
}

}  // namespace

std::vector<TensorDescription> describe_tensors(const WeightDirectory& directory,
                                                std::string_view layer_prefix) {
  std::map<std::string, Parts> by_key;
  for (const WeightDirectory::Entry& entry : directory.entries()) {
    const std::string& name = entry.tensor->name;
    const size_t dot = name.rfind('.');
    const std::string key = dot == std::string::npos ? name : name.substr(0, dot);
    by_key[key].emplace(dot == std::string::npos ? "" : name.substr(dot + 1), entry);
  }
  std::vector<TensorDescription> out;
  for (const auto& [key, parts] : by_key) {
    if (is_quantized(parts)) {
      out.push_back(describe_matrix(key, parts, layer_prefix));
      continue;
    }
    for (const auto& [suffix, entry] : parts) out.push_back(describe_plain(key, suffix, entry, layer_prefix));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.layer != b.layer && (a.layer < b.layer); });
  return out;
}

}  // namespace quire
