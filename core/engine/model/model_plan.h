// Memory plan of a model and its cache, and the placement of layers on devices, made before any weight is
// read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/model/device_list.h"
#include "core/engine/model/model_cache.h"
#include "core/models/draft_source.h"
#include "core/models/memory_plan.h"

namespace quire {

// Tokens of the cache to plan for if the caller gives no cache options.
constexpr int64_t kPlannedTokens = 8192;

struct ModelDevice {
  std::string name;
  std::shared_ptr<Device> device;
  uint64_t reserve_bytes = 0;                           // free memory that the model must leave
  std::optional<uint64_t> budget_bytes = std::nullopt;  // maximum for this model
  uint64_t idle_bytes = 0;   // weights of idle models, which can be evicted for this one
  bool takes_layers = true;  // false: it takes host experts alone; such a device is the last one
};

struct ModelPlanOptions {
  std::shared_ptr<ModelSource> source;
  std::vector<ModelDevice> devices;  // layers run in this order; the CPU takes what the others cannot hold
  // Layers of each device, or of each num_shards cards; empty: split automatically, within the budgets.
  std::vector<int32_t> split;
  HostExpertsChoice host_experts = {};
  int32_t num_shards = 1;  // tensor-parallel shards of each stage; several cards have one each
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;  // in the layers' matrix products
  std::optional<ModelCacheOptions> cache;  // to leave memory for; not set: one of kPlannedTokens
  // "", "none", "auto", "mtp" or the path of a draft network; see ModelLoadOptions.
  std::string drafter = {};
  std::shared_ptr<const DraftSource> draft_source = {};  // of `drafter`, set by open_drafter; null: none
};

// Opens the draft network that the options name. Throws the errors of open_draft_source; with "auto" a model
// without one has none, and one on a GPU neither: there the module must be named.
void open_drafter(const FileSystem& files, ModelPlanOptions& options);

struct ModelPlan {
  MemoryPlan memory;
  ModelCacheOptions cache;             // the cache planned for, with the chosen KV formats
  std::vector<uint64_t> usable_bytes;  // on each device when planned: free bytes minus the reserve
};

// True if the model and its cache fit into the usable memory.
bool fits(const ModelPlan& plan, const ModelPlanOptions& options);

// Plans the model and its cache. Shards on cards of their own are even, unless only shares by the usable
// memory of the cards fit. With an automatic KV format returns the plan with the first format that fits, or
// with the last. Reads the configuration, file headers, and the tensors that decide the layout of matrices.
// Throws the errors of loading metadata, ErrorCode::invalid_argument naming the option, and
// ErrorCode::out_of_memory with the bytes needed and free if an automatic split over several devices is
// impossible.
ModelPlan plan_model(const ModelPlanOptions& options);

}  // namespace quire
