// Options of a load, and the memory plan that follows from them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/engine/model/device_list.h"
#include "core/engine/model/device_registry.h"
#include "core/engine/model/model_plan.h"
#include "core/models/model.h"

namespace quire {

struct ModelLoadOptions {
  std::string path;                        // a directory, a tokenizer.json, or a folder of variants
  std::string devices;                     // names separated by commas; empty: the default devices
  SplitChoice split;                       // of the layers over the devices
  std::vector<uint64_t> reserve;           // bytes left free on each device, or one number for all; empty:
                                           // 256 MiB on cards
  std::optional<ModelCacheOptions> cache;  // memory to leave for a cache; none: one of kPlannedTokens
  ModelScope scope = ModelScope::full;
  bool is_lazy = false;  // the first job loads the weights
  int32_t num_shards = 1;
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;
  std::function<void(const LoadProgress&)> progress;  // runs on the loading thread; null: no reports
};

// Opens the devices and returns the plan's options for one model. Throws like DeviceRegistry::open, and
// ErrorCode::invalid_argument if `reserve` or `split` has a number too many or too few.
ModelPlanOptions plan_options(DeviceRegistry& devices, const ModelLoadOptions& load,
                              std::shared_ptr<ModelSource> source);

struct PlannedModel {
  ModelPlanOptions options;
  ModelPlan plan;
};

// Plans a model that exists in several precisions: returns the first that fits now, or the last.
PlannedModel plan_variants(const FileSystem& files, DeviceRegistry& devices, const ModelLoadOptions& load);

}  // namespace quire
