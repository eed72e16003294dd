// What the options of a model ask for, in the engine's words.
#pragma once

#include "capi/src/runtime_object.h"
#include "core/engine/model/model_plan.h"

namespace quire::capi {

// Opens the devices; the model is the caller's. Throws where a device cannot be had or the reserve does not
// go with them.
ModelPlanOptions plan_options(RuntimeShare& runtime, const ModelSettings& settings,
                              std::shared_ptr<ModelSource> source);

struct PlannedModel {
  ModelPlanOptions options;
  ModelPlan plan;
};

// Of a model in several precisions: the first that fits now, or the last.
PlannedModel plan_variants(RuntimeShare& runtime, const ModelSettings& settings);

}  // namespace quire::capi
