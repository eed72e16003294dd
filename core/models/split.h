// Automatic placement of layers on devices, based on bytes alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/models/placement.h"

namespace quire {

// Bytes that a model and its cache take on one device.
struct DeviceDemand {
  uint64_t stage_bytes = 0;           // once, if the device has any layer: activations, scratch
  uint64_t embedding_bytes = 0;       // with the first layer
  std::vector<uint64_t> layer_bytes;  // weights and pages of each layer
  uint64_t head_bytes = 0;            // with the last layer: the head and the memory of the logits

  // Returns the bytes of the layers first to end - 1 as one stage; 0 if there are none.
  uint64_t bytes_of(int32_t first, int32_t end) const;
  // Adds the demand of another shard of the same layers.
  DeviceDemand& operator+=(const DeviceDemand& other);
};

// Memory of one device, and the demand of the model on it. Also of the devices of a stage, one for each
// shard.
struct DeviceCapacity {
  std::string name;  // for error messages
  uint64_t free_bytes = 0;
  uint64_t reserve_bytes = 0;                           // must stay free
  std::optional<uint64_t> budget_bytes = std::nullopt;  // limit for the rest
  bool is_host = false;                                 // takes only layers that fit nowhere else
  DeviceDemand demand;                                  // of the model's layers, or the shard on it
  std::vector<DeviceCapacity> peers = {};               // devices of the other shards; empty: none
  uint64_t fixed_bytes = 0;                             // taken by the model whatever layers are placed here

  uint64_t usable_bytes() const {
    const uint64_t left = free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0;
    const uint64_t usable = std::min(left, budget_bytes.value_or(left));
    return usable > fixed_bytes ? usable - fixed_bytes : 0;
  }
};

// Places the layers on the devices, in the order of the devices. If the model fits on the devices other than
// the host, they are filled from the first one on. Otherwise the devices before the host are filled from the
// first layer on, the devices after it from the last layer back, and the host takes the layers between. No
// other split gives the host fewer layers. At most one device is the host. Throws ErrorCode::out_of_memory,
// with the needed and the usable bytes, if no split fits.
Placement split_automatically(gsl::span<const DeviceCapacity> devices);

}  // namespace quire
