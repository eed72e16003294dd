// On which of its devices each layer of a model lies. Plain data: made by split.h or by hand, read by what
// builds and what runs the model.
// Pipeline parallelism (pipeline parallel): consecutive layers on one device are a stage.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

namespace quire {

// The embedding lies with the first layer, the head with the last.
struct Placement {
  std::vector<int32_t> device_of_layer;  // index into the model's devices
  bool operator==(const Placement&) const = default;
};

// Layers that follow each other on one device.
struct LayerRun {
  int32_t device = 0;
  int32_t first = 0;
  int32_t end = 0;
  bool operator==(const LayerRun&) const = default;
};

// Throws ErrorCode::invalid_argument where a layer lies on no device.
void require_placement(const Placement& placement, int32_t num_layers, int32_t num_devices);

std::vector<LayerRun> layer_runs(const Placement& placement);

// All layers on the first device.
Placement place_on_one_device(int32_t num_layers);
// So many layers on each device, in the order of the devices. Throws ErrorCode::invalid_argument where that
// makes another number of layers.
Placement place_by_counts(gsl::span<const int32_t> layers_of_device, int32_t num_layers);

}  // namespace quire
