// A model with its place in a runtime: its share of the budgets, and its weights' way to the devices and
// back.
#pragma once

#include <memory>

#include "core/engine/model/model_plan.h"
#include "core/engine/residency/residence.h"
#include "core/engine/runtime.h"
#include "core/models/model.h"

namespace quire {

struct ModelHomeOptions {
  ModelPlanOptions plan;  // the source, and for the full scope the devices
  ModelScope scope = ModelScope::full;
  bool is_lazy = false;  // of the full scope: declared, and loaded by its first job
  LoadMonitor monitor;   // of this load
};

// Any thread. Caches keep it alive.
class ModelHome {
 public:
  // Throws what a load throws; where the runtime's memory does not suffice, models that nobody uses leave
  // for it, or it is refused naming who holds what.
  static std::shared_ptr<const ModelHome> load(std::shared_ptr<Runtime> runtime,
                                               const ModelHomeOptions& options);
  // A load that is under way for its jobs ends.
  ~ModelHome();

  const std::shared_ptr<const Model>& model() const { return model_; }
  // Throws ErrorCode::unsupported where the scope has no weights.
  Residence& residence() const;
  const std::shared_ptr<Residence>& shared_residence() const { return residence_; }

 private:
  ModelHome(std::shared_ptr<const Model> model, std::shared_ptr<Residence> residence);

  // Null where the scope has no weights. Goes last: the bytes are given back once the weights are gone.
  const std::shared_ptr<Residence> residence_;
  const std::shared_ptr<const Model> model_;
};

}  // namespace quire
