// Which layers go to which device, from bytes alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/models/placement.h"

namespace quire {

// Bytes that a model and a cache on it take on one device.
struct DeviceDemand {
  uint64_t stage_bytes = 0;           // once, where it has any layer: activations, scratch
  uint64_t embedding_bytes = 0;       // with the first layer
  std::vector<uint64_t> layer_bytes;  // weights and pages of each layer
  uint64_t head_bytes = 0;            // with the last layer: the head, and what its logits need

  // Of the layers first to end - 1 as a stage; 0 where there is none.
  uint64_t bytes_of(int32_t first, int32_t end) const;
};

struct DeviceRoom {
  std::string name;  // for messages
  uint64_t free_bytes = 0;
  uint64_t reserve_bytes = 0;                           // of them, to be left alone
  std::optional<uint64_t> budget_bytes = std::nullopt;  // of the rest, at most so many
  bool is_host = false;                                 // takes only what the others cannot hold
  DeviceDemand demand;                                  // of the same layers on each device

  uint64_t usable_bytes() const {
    const uint64_t left = free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0;
    return std::min(left, budget_bytes.value_or(left));
  }
};

// Layers run in the order of the devices. Where the devices that are not the host hold the model, the first
// of them take as much as they can; otherwise those before the host are filled from the first layer on, those
// after it from the last layer back, and the host, of which there is at most one, takes the layers between:
// no other split leaves it fewer. Throws ErrorCode::out_of_memory with the bytes needed and to be had where
// there is no split.
Placement split_automatically(gsl::span<const DeviceRoom> devices);

}  // namespace quire
