#include "core/models/placement.h"

#include "core/base/error.h"

namespace quire {

void require_placement(const Placement& placement, int32_t num_layers, int32_t num_devices) {
  const std::vector<int32_t>& layers = placement.device_of_layer;
  if (layers.size() != static_cast<size_t>(num_layers)) {
    throw Error(ErrorCode::invalid_argument, "split: {} layers are placed, but the model has {}",
                layers.size(), num_layers)
        .at("split");
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= 0 && layers[i] < num_devices) continue;
    throw Error(ErrorCode::invalid_argument,
                "split: layer {} is placed on device {}, but there are {} devices, numbered from 0", i,
                layers[i], num_devices)
        .at("split");
  }
  for (const int32_t device : {placement.embedding_device, placement.head_device})
    if (device >= num_devices)
      throw Error(ErrorCode::invalid_argument, "split: an end is placed on device {} of {}", device,
                  num_devices)
          .at("split");
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
