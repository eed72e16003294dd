// Placement of a model's layers on its devices (pipeline parallelism): consecutive layers on one device are a
// stage. The shards of a stage lie on one device or on one each (tensor parallelism). Plain data that is
// computed by split.h or given by the host.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

namespace quire {

// Device of each layer, as an index into the model's devices. Devices of the embedding and the head can be
// given, because a device of another process has neither.
struct Placement {
  std::vector<int32_t> device_of_layer;  // of the first shard
  // Device of each layer's feed-forward block. A block that is not on the device of its layer has host
  // experts. Empty: each block is on the device of its layer.
  std::vector<int32_t> device_of_experts = {};
  // For each device: true if shard r of its stages lies on the r-th device after it, false if all shards lie
  // on it. Empty: false for all.
  std::vector<bool> spreads = {};
  std::vector<int32_t> shares = {};  // relative columns of each shard; empty: the same
  int32_t embedding_device = -1;     // -1: that of the first layer
  int32_t head_device = -1;          // -1: that of the last layer
  bool operator==(const Placement&) const = default;

  // Returns the device of a shard of the stages on `device`.
  int32_t device_of_shard(int32_t device, int32_t rank) const {
    return !spreads.empty() && spreads[static_cast<size_t>(device)] ? device + rank : device;
  }
};

// Consecutive layers on one device. The first and the last range have no layers if the embedding or the head
// is on another device than its neighbouring layer.
struct LayerRange {
  int32_t device = 0;
  int32_t first = 0;
  int32_t end = 0;
  bool operator==(const LayerRange&) const = default;
};

// Throws ErrorCode::invalid_argument unless each of num_layers layers, and each of its shards and the ends
// that are given, has one of num_devices devices, and all host experts are on one device.
void require_placement(const Placement& placement, int32_t num_layers, int32_t num_devices,
                       int32_t num_shards = 1);

// Device on which the first shard of a stage may lie, and whether the others lie on the devices after it.
struct StagePlace {
  int32_t device = 0;
  bool spreads = false;
  bool operator==(const StagePlace&) const = default;
};

// Returns the places of stages on devices, in their order. All shards of a stage lie on the host or on an
// only card. Several cards are taken num_shards at a time. Throws ErrorCode::invalid_argument if cards that
// are named next to each other are no multiple of num_shards.
std::vector<StagePlace> stage_places(const std::vector<bool>& is_host, int32_t num_shards);

std::vector<LayerRange> layer_ranges(const Placement& placement);

// Returns the device of the layer's feed-forward block.
int32_t experts_device(const Placement& placement, int32_t layer);
// True if the feed-forward block of the layer is on another device than the layer.
bool has_host_experts(const Placement& placement, int32_t layer);
// Returns the index of the device with the host experts; -1 if there are none.
int32_t host_experts_device(const Placement& placement);

// Places all layers on the first device.
Placement place_on_one_device(int32_t num_layers);
// Places the given number of layers on each device, in the order of the devices. Throws
// ErrorCode::invalid_argument if the sum is not num_layers or a number is negative.
Placement place_by_counts(gsl::span<const int32_t> layers_of_device, int32_t num_layers);

}  // namespace quire
