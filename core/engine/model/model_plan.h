// What a model and a cache on it will take, and how the layers go to devices, before a weight is read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/model/model_cache.h"
#include "core/models/memory_plan.h"

namespace quire {

// Tokens of the cache that is planned for where nobody says what cache there will be.
constexpr int64_t kPlannedTokens = 8192;

struct ModelDevice {
  std::string name;
  std::shared_ptr<Device> device;
  uint64_t reserve_bytes = 0;                           // of its free memory, to be left alone
  std::optional<uint64_t> budget_bytes = std::nullopt;  // of the rest, at most so many for this model
  uint64_t idle_bytes = 0;                              // that other models would leave for it
};

struct ModelPlanOptions {
  std::shared_ptr<ModelSource> source;
  std::vector<ModelDevice> devices;  // layers run in their order; the cpu takes what the others cannot hold
  std::vector<int32_t> split;        // layers of each device; empty: automatically, within the budgets
  int32_t num_shards = 1;            // of each stage
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;  // of the layers' products
  std::optional<ModelCacheOptions> cache;  // that room is left for; none: one of kPlannedTokens
};

struct ModelPlan {
  MemoryPlan memory;
  ModelCacheOptions cache;             // that was planned for, with the KV formats chosen
  std::vector<uint64_t> usable_bytes;  // of each device, at that moment: free and not in reserve
};

// Whether all of it goes into what is usable now.
bool fits(const ModelPlan& plan, const ModelPlanOptions& options);

// Where the KV format is chosen by room: the first that fits, or the last. Reads configuration, headers and
// what decides the layout of matrices. Throws what a load of the metadata throws, ErrorCode::invalid_argument
// naming the option, ErrorCode::out_of_memory with the bytes needed and free where an automatic split over
// several devices does not go.
ModelPlan plan_model(const ModelPlanOptions& options);

}  // namespace quire
