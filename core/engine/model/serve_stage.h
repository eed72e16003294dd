// The role of a stage for a runtime.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/wait.h"
#include "core/engine/model/device_registry.h"
#include "core/engine/residency/runtime.h"

namespace quire {

struct StageServing {
  std::string listen;         // "HOST:PORT"; port 0 takes a free one
  std::string models;         // directory of the models; empty: only synthetic ones
  int32_t num_shards = 1;     // of all layers
  uint64_t memory_bytes = 0;  // for all hosts together; 0: what the devices have free
};

// Serves hosts on the first default device, or with shards on all default devices, until the wait ends, which
// throws ErrorCode::timeout or ErrorCode::cancelled. Logs the address. Throws ErrorCode::invalid_argument
// without a key file, and the errors of StageServer.
[[noreturn]] void serve_stage(Runtime& runtime, DeviceRegistry& devices, const StageServing& serving,
                              const Wait& wait);

}  // namespace quire
