#include "core/loader/weight_summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "core/base/checked_math.h"
#include "core/loader/weight_formats.h"

namespace quire {
namespace {

// Suffixes of tensors that describe activations and caches.
constexpr std::array<std::string_view, 6> kOtherSuffixes = {
    "input_scale", "input_scale_ub", "input_global_scale", "activation_scale", "k_scale", "v_scale"};

struct SplitName {
  std::string_view key;
  std::string_view suffix;
};

SplitName split(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? SplitName{name, ""}
                                       : SplitName{name.substr(0, dot), name.substr(dot + 1)};
}

uint64_t product_of(const std::vector<int64_t>& shape, std::string_view name) {
  uint64_t product = 1;
  for (const int64_t extent : shape) product = checked_mul(product, static_cast<uint64_t>(extent), name);
  return product;
}

uint64_t weights_of(const WeightDirectory& directory, const TensorInfo& tensor) {
  if (const auto owner = find_owner(directory, tensor.name)) {
    if (!owner->has_codes) return 0;
    return product_of(owner->format->describe(LayerTensors(directory, owner->key)), tensor.name);
  }
  const SplitName name = split(tensor.name);
  const bool other =
      std::find(kOtherSuffixes.begin(), kOtherSuffixes.end(), name.suffix) != kOtherSuffixes.end();
  return other ? 0 : tensor.num_elements();
}

// Returns the number right after the prefix, if the name has one.
std::optional<uint32_t> layer_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '.';
  return whole ? std::optional(layer) : std::nullopt;
}

void add(WeightShare& share, uint64_t weights, uint64_t bytes) {
  share.num_weights = checked_add(share.num_weights, weights, share.name);
  share.size_bytes += bytes;
}

template <typename Key>
std::vector<WeightShare> values(std::map<Key, WeightShare>& shares) {
  std::vector<WeightShare> out;
  out.reserve(shares.size());
  for (auto& [key, share] : shares) out.push_back(std::move(share));
  return out;
}

}  // namespace

WeightSummary summarize_weights(const WeightDirectory& directory, std::string_view layer_prefix) {
  std::map<uint32_t, WeightShare> layers;
  std::map<std::string, WeightShare> outside;
  WeightSummary summary;
  summary.total.name = "total";
  for (const WeightDirectory::Entry& entry : directory.entries()) {
    const TensorInfo& tensor = *entry.tensor;
    const uint64_t weights = weights_of(directory, tensor);
    const auto layer = layer_of(tensor.name, layer_prefix);
    const std::string key(split(tensor.name).key);
    WeightShare& share = layer ? layers[*layer] : outside[key];
    if (share.name.empty()) share.name = layer ? std::to_string(*layer) : key;
    add(share, weights, tensor.size_bytes);
    add(summary.total, weights, tensor.size_bytes);
  }
  summary.layers = values(layers);
  summary.outside = values(outside);
  return summary;
}

}  // namespace quire
