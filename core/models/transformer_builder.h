// Builds a transformer on its devices from a configuration and weights.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/base/thread.h"
#include "core/config/draft_network.h"
#include "core/config/model_config.h"
#include "core/layers/layer_builder.h"
#include "core/models/placement.h"
#include "core/models/transformer.h"

namespace quire {

// Draft network to build with a model. Borrowed for the duration of the build.
struct DraftBuild {
  const DraftNetworkConfig& config;
  WeightProvider& weights;
  gsl::span<const TokenId> token_of;  // see DraftTransformer
  std::string_view name;
};

struct BuildOptions {
  BuildMode mode = BuildMode::prepare;
  const ThreadFactory* threads = &system_threads();
  int32_t num_helpers = 0;  // threads in addition to the caller
  int32_t num_shards = 1;   // of each stage in this process
  // Type of the activations that the layers' matrices read.
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;
  const DraftBuild* drafter = nullptr;
  const SharedModel* shared = nullptr;  // the model, for stages in other processes; null: there are none
};

// Builds a transformer. Each thread reads, checks and prepares one layer at a time, so host memory holds at
// most one layer per thread. Each shard reads the tensors of which it has a part. Throws the errors of the
// provider, or ErrorCode::out_of_memory from a device; a failed build frees all its memory. BuildMode::plan
// needs a provider that reads only the layout. Throws ErrorCode::unsupported if a draft network reads states
// of layers that are not on the last device. The first and the last stage must lie in this process.
std::shared_ptr<const Transformer> build_transformer(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const Placement& placement, const BuildOptions& options);

// Builds the layers of a stage whose ends are in another process: a transformer of one stage
// (Transformer::is_inner). `devices` has one device for all shards or one for each. Throws the errors of
// build_transformer, and ErrorCode::invalid_argument unless the layers are some of the model's.
std::shared_ptr<const Transformer> build_inner_stage(const ModelConfig& config, WeightProvider& weights,
                                                     gsl::span<const std::shared_ptr<Device>> devices,
                                                     const LayerRange& layers, const BuildOptions& options);

}  // namespace quire
