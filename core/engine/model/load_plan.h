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
  std::string path;     // a directory, a tokenizer.json, or a directory of variants
  std::string devices;  // names separated by commas; empty: the default devices
  SplitChoice split;    // of the layers across the devices
  HostExpertsChoice host_experts;
  // Bytes to leave free on each device, or one number for all; empty: 256 MiB on GPUs, none on the CPU
  // and on stages of other processes.
  std::vector<uint64_t> reserve;
  std::optional<ModelCacheOptions> cache;  // memory to leave for a cache; not set: one of kPlannedTokens
  // Draft network to load with the model. Empty or "none": no network. "mtp": the MTP heads of the
  // checkpoint. "auto": on the CPU "mtp" if the checkpoint has them, otherwise "none". Any other text: the
  // path of a draft model or of an EAGLE-3 network.
  std::string drafter = "auto";
  ModelScope scope = ModelScope::full;
  bool is_lazy = false;  // the first job loads the weights
  int32_t num_shards = 1;
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;
  std::function<void(const LoadProgress&)> progress;  // runs on the loading thread; null: no reports
};

// Opens the devices and returns the plan's options for one model. With host experts the CPU is the last
// device if the load does not name it. Throws like DeviceRegistry::open, and ErrorCode::invalid_argument if
// `reserve` or `split` does not have one number for each device.
ModelPlanOptions plan_options(DeviceRegistry& devices, const ModelLoadOptions& load,
                              std::shared_ptr<ModelSource> source);

struct PlannedModel {
  ModelPlanOptions options;
  ModelPlan plan;
};

// Plans the load of a model that exists in several precisions. Returns the first plan that fits now, or the
// last.
PlannedModel plan_variants(const FileSystem& files, DeviceRegistry& devices, const ModelLoadOptions& load);

}  // namespace quire
