// Builds a transformer on a device from a configuration and its weights.
#pragma once

#include <memory>
#include <vector>

#include "core/base/thread.h"
#include "core/config/model_config.h"
#include "core/layers/layer_builder.h"
#include "core/models/placement.h"
#include "core/models/transformer.h"

namespace quire {

struct BuildOptions {
  BuildMode mode = BuildMode::prepare;
  const ThreadFactory* threads = &system_threads();
  int32_t num_helpers = 0;                                                // threads beside the caller
  int32_t num_shards = 1;                                                 // of each stage
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;  // of the layers' products
};

// Reads, checks and prepares a layer at a time on each thread, each layer for its own device, so that host
// memory holds as many layers as there are threads. Each shard reads what it has a part of. Throws what the
// provider throws, or ErrorCode::out_of_memory from a device; nothing stays taken then. To plan takes a
// provider that reads the layout.
std::shared_ptr<const Transformer> build_transformer(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const Placement& placement, const BuildOptions& options);

}  // namespace quire
