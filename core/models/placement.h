// Placement of a model's layers on its devices (pipeline parallelism): consecutive layers on one device are a
// stage. Plain data that is computed by split.h or given by the host.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

namespace quire {

// Device of each layer, as an index into the model's devices. Devices of the embedding and the head can be
// given, because a device of another process has neither.
struct Placement {
  std::vector<int32_t> device_of_layer;
  int32_t embedding_device = -1;  // -1: that of the first layer
  int32_t head_device = -1;       // -1: that of the last layer
  bool operator==(const Placement&) const = default;
};

// Consecutive layers on one device. The first and the last range have no layers if the embedding or the head
// is on another device than its neighbouring layer.
struct LayerRange {
  int32_t device = 0;
  int32_t first = 0;
  int32_t end = 0;
  bool operator==(const LayerRange&) const = default;
};

// Throws ErrorCode::invalid_argument unless each of num_layers layers, and each end that is given, has one of
// num_devices devices.
void require_placement(const Placement& placement, int32_t num_layers, int32_t num_devices);

std::vector<LayerRange> layer_ranges(const Placement& placement);

// Places all layers on the first device.
Placement place_on_one_device(int32_t num_layers);
// Places the given number of layers on each device, in the order of the devices. Throws
// ErrorCode::invalid_argument if the sum is not num_layers or a number is negative.
Placement place_by_counts(gsl::span<const int32_t> layers_of_device, int32_t num_layers);

}  // namespace quire
