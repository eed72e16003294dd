// Weight offload: moves the matrices of a model to pinned host memory and back, unchanged and to the same
// addresses. Weights on the host stay where they are.
#pragma once

#include <atomic>
#include <map>

#include "core/models/transformer.h"

namespace quire {

// Bytes that were freed on each device, and that the weights need there when they come back.
using OffloadedBytes = std::map<const Device*, uint64_t>;

// True if a device of the transformer supports the offload of weights, and all others do or are the host.
bool can_offload(const Transformer& transformer);
// Copies the weights to host memory, and adds an entry to `bytes` for each device. The copies exist as long
// as the transformer. Throws ErrorCode::out_of_memory if host memory runs out; copies that were made stay.
void copy_weights(const Transformer& transformer, OffloadedBytes& bytes);
// Frees the device memory of the weights and sets `bytes`. Small blocks stay on the device. Called after
// copy_weights, while nothing computes with the weights.
void offload_weights(const Transformer& transformer, OffloadedBytes& bytes) noexcept;
// Starts the copies back to the devices, in the order in which a step reads the weights. A step waits for
// each weight when it needs it. Throws ErrorCode::out_of_memory, or ErrorCode::cancelled if `stop` is set;
// all weights are then offloaded again.
void reload_weights(const Transformer& transformer, const std::atomic<bool>& stop);

}  // namespace quire
