#include "core/models/placement.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"

namespace quire {

namespace {

// `option` chose the device of part `index` of `what`.
[[noreturn]] void refuse_device(std::string_view option, std::string_view what, size_t index, int32_t device,
                                int32_t num_devices) {
  throw Error(ErrorCode::invalid_argument,
              "{}: {} {} is placed on device {}, but there are {} devices, numbered from 0", option, what,
              index, device, num_devices)
      .at(option);
}

void require_experts(const Placement& placement, int32_t num_layers, int32_t num_devices) {
  const std::vector<int32_t>& experts = placement.device_of_experts;
  if (experts.empty()) return;
  if (experts.size() != static_cast<size_t>(num_layers)) {
    throw Error(ErrorCode::invalid_argument,
                "host_experts: the experts of {} layers are placed, but the model has {}", experts.size(),
                num_layers)
        .at("host_experts");
  }
  for (size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] < 0 || experts[i] >= num_devices)
      refuse_device("host_experts", "the feed-forward block of layer", i, experts[i], num_devices);
  }
  const int32_t host = host_experts_device(placement);
  for (int32_t i = 0; i < num_layers; ++i) {
    if (!has_host_experts(placement, i) || experts[static_cast<size_t>(i)] == host) continue;
    throw Error(
        ErrorCode::invalid_argument,
        "host_experts: experts are placed on the devices {} and {} beside their layers; place them on "
        "one",
        host, experts[static_cast<size_t>(i)])
        .at("host_experts");
  }
}

}  // namespace

void require_placement(const Placement& placement, int32_t num_layers, int32_t num_devices,
                       int32_t num_shards) {
  const std::vector<int32_t>& layers = placement.device_of_layer;
  if (layers.size() != static_cast<size_t>(num_layers)) {
    throw Error(ErrorCode::invalid_argument, "split: {} layers are placed, but the model has {}",
                layers.size(), num_layers)
        .at("split");
  }
  const auto is_device = [=](int32_t device) { return device >= 0 && device < num_devices; };
  const bool is_sized =
      placement.spreads.empty() || placement.spreads.size() == static_cast<size_t>(num_devices);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (is_sized && is_device(layers[i]) && is_device(placement.device_of_shard(layers[i], num_shards - 1)))
      continue;
    refuse_device("split", "layer", i, layers[i], num_devices);
  }
  for (const int32_t device : {placement.embedding_device, placement.head_device})
    if (device >= num_devices)
      throw Error(ErrorCode::invalid_argument, "split: an end is placed on device {} of {}", device,
                  num_devices)
          .at("split");
  require_experts(placement, num_layers, num_devices);
}

int32_t experts_device(const Placement& placement, int32_t layer) {
  const std::vector<int32_t>& experts = placement.device_of_experts;
  return (experts.empty() ? placement.device_of_layer : experts)[static_cast<size_t>(layer)];
}

bool has_host_experts(const Placement& placement, int32_t layer) {
  return experts_device(placement, layer) != placement.device_of_layer[static_cast<size_t>(layer)];
}

int32_t host_experts_device(const Placement& placement) {
  for (size_t i = 0; i < placement.device_of_experts.size(); ++i)
    if (has_host_experts(placement, static_cast<int32_t>(i))) return placement.device_of_experts[i];
  return -1;
}

std::vector<StagePlace> stage_places(const std::vector<bool>& is_host, int32_t num_shards) {
  const auto num_cards = std::count(is_host.begin(), is_host.end(), false);
  std::vector<StagePlace> places;
  for (size_t i = 0; i < is_host.size();) {
    const auto device = static_cast<int32_t>(i);
    const bool spreads = num_shards > 1 && num_cards > 1 && !is_host[i];
    const size_t count = spreads ? static_cast<size_t>(num_shards) : 1;
    const auto first = is_host.begin() + static_cast<ptrdiff_t>(i);
    if (count > is_host.size() - i ||
        (spreads && std::find(first, first + num_shards, true) != first + num_shards)) {
      throw Error(ErrorCode::invalid_argument,
                  "num_shards is {}, but {} cards are named; a stage has one card for each shard, so name a "
                  "multiple of {} cards next to each other, or one card for all shards",
                  num_shards, num_cards, num_shards)
          .at("num_shards");
    }
    places.push_back({device, spreads});
    i += count;
  }
  return places;
}

std::vector<LayerRange> layer_ranges(const Placement& placement) {
  std::vector<LayerRange> runs;
  if (placement.embedding_device >= 0) runs.push_back({placement.embedding_device, 0, 0});
  for (const int32_t device : placement.device_of_layer) {
    const int32_t layer = runs.empty() ? 0 : runs.back().end;
    if (runs.empty() || runs.back().device != device) runs.push_back({device, layer, layer});
    ++runs.back().end;
  }
  const int32_t head = placement.head_device;
  if (head >= 0 && head != runs.back().device) runs.push_back({head, runs.back().end, runs.back().end});
  return runs;
}

Placement place_on_one_device(int32_t num_layers) {
  return {std::vector<int32_t>(static_cast<size_t>(num_layers), 0)};
}

Placement place_by_counts(gsl::span<const int32_t> layers_of_device, int32_t num_layers) {
  Placement placement;
  int64_t total = 0;
  for (const int32_t count : layers_of_device) total += count;
  if (total != num_layers) {
    throw Error(ErrorCode::invalid_argument, "split: {} layers are placed, but the model has {}", total,
                num_layers)
        .at("split");
  }
  for (size_t device = 0; device < layers_of_device.size(); ++device) {
    if (layers_of_device[device] < 0) {
      throw Error(ErrorCode::invalid_argument,
                  "split: {} layers for device {}; the number must not be negative", layers_of_device[device],
                  device)
          .at("split");
    }
    placement.device_of_layer.insert(placement.device_of_layer.end(),
                                     static_cast<size_t>(layers_of_device[device]),
                                     static_cast<int32_t>(device));
  }
  return placement;
}

}  // namespace quire
