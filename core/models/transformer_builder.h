// Builds a transformer on a device from a configuration and its weights.
#pragma once

#include <memory>
#include <vector>

#include "core/config/model_config.h"
#include "core/models/placement.h"
#include "core/models/transformer.h"
#include "core/models/transformer_memory.h"
#include "core/models/weight_provider.h"

namespace quire {

TransformerShape transformer_shape(const ModelConfig& config);

// Reads, checks and prepares one layer after another, each for its own device, so that host memory holds one
// layer at a time. Throws what the provider throws, or ErrorCode::out_of_memory from a device; nothing stays
// taken then.
std::shared_ptr<const Transformer> build_transformer(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const Placement& placement);

}  // namespace quire
