// A model in a runtime: accounts for its memory, and loads, offloads and evicts its weights.
#pragma once

#include <memory>

#include "core/engine/model/model_plan.h"
#include "core/engine/residency/runtime.h"
#include "core/engine/residency/weight_residency.h"
#include "core/models/model.h"

namespace quire {

struct ResidentModelOptions {
  ModelPlanOptions plan;  // the source, and for the full scope the devices
  ModelScope scope = ModelScope::full;
  bool is_lazy = false;  // for the full scope: only metadata is loaded, and the first job loads the weights
  LoadMonitor monitor;   // of this load
};

// Thread-safe. Caches keep it alive.
class ResidentModel {
 public:
  // Loads the model. If memory is short, evicts the weights of idle models first. Throws the errors of
  // Model::load, and ErrorCode::out_of_memory listing the users of the memory.
  static std::shared_ptr<const ResidentModel> load(std::shared_ptr<Runtime> runtime,
                                                   const ResidentModelOptions& options);
  // Ends a load of the weights that is in progress for jobs.
  ~ResidentModel();

  const std::shared_ptr<const Model>& model() const { return model_; }
  // Throws ErrorCode::unsupported if the scope has no weights.
  WeightResidency& residency() const;
  const std::shared_ptr<WeightResidency>& shared_residency() const { return residency_; }

 private:
  ResidentModel(std::shared_ptr<const Model> model, std::shared_ptr<WeightResidency> residency);

  // Null if the scope has no weights. Declared first, so that the memory leases are released after the
  // weights.
  const std::shared_ptr<WeightResidency> residency_;
  const std::shared_ptr<const Model> model_;
};

}  // namespace quire
