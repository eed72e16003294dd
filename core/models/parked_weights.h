// The matrices of a model in host memory, from where they come back as they were and to where they were.
// Weight offload to pinned host memory.
#pragma once

#include <atomic>
#include <map>

#include "core/models/transformer.h"

namespace quire {

// By the device that gets them back.
using ParkedBytes = std::map<const Device*, uint64_t>;

bool can_park(const Transformer& transformer);
// Makes the copies, which stay until the transformer goes, and gives a place in `bytes` to each device.
// Throws ErrorCode::out_of_memory where the host has no room; copies that were made stay.
void copy_weights(const Transformer& transformer, ParkedBytes& bytes);
// After that, and where nothing computes with them. Adds up what the devices get back; what is small stays.
void park_weights(const Transformer& transformer, ParkedBytes& bytes) noexcept;
// They are on their way then, in the order of a step, which waits for each as it needs it. Throws
// ErrorCode::out_of_memory, or ErrorCode::cancelled once `stop` is on; all are away then.
void bring_weights(const Transformer& transformer, const std::atomic<bool>& stop);

}  // namespace quire
