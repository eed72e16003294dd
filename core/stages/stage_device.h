// The device of a stage as hosts see it: numbers about it, and no operation.
#pragma once

#include <memory>

#include "core/stages/stage_connection.h"
#include "core/tensor/device.h"

namespace quire {

// Returns a device with the name of the stage, which `peer` builds layers on. Its free bytes are those of the
// counters; every other entry of its kernel table refuses.
std::shared_ptr<Device> make_stage_device(const std::string& name, const StageDescription& description,
                                          std::shared_ptr<const StageCounters> counters,
                                          std::shared_ptr<StagePeer> peer);

}  // namespace quire
