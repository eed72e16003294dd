// A model with its place in a runtime: its share of the budgets, and its weights' way to the devices and
// back.
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
  bool is_lazy = false;  // of the full scope: declared, and loaded by its first job
  LoadMonitor monitor;   // of this load
};

// Any thread. Caches keep it alive.
class ResidentModel {
 public:
  // Throws what a load throws; where the runtime's memory does not suffice, models that nobody uses leave
  // for it, or it is refused naming who holds what.
  static std::shared_ptr<const ResidentModel> load(std::shared_ptr<Runtime> runtime,
                                                   const ResidentModelOptions& options);
  // A load that is under way for its jobs ends.
  ~ResidentModel();

  const std::shared_ptr<const Model>& model() const { return model_; }
  // Throws ErrorCode::unsupported where the scope has no weights.
  WeightResidency& residency() const;
  const std::shared_ptr<WeightResidency>& shared_residency() const { return residency_; }

 private:
  ResidentModel(std::shared_ptr<const Model> model, std::shared_ptr<WeightResidency> residency);

  // Null where the scope has no weights. Goes last: the bytes are given back once the weights are gone.
  const std::shared_ptr<WeightResidency> residency_;
  const std::shared_ptr<const Model> model_;
};

}  // namespace quire
