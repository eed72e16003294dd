// Loads a model: chooses the variant, plans its memory, and registers it with the runtime.
#pragma once

#include <memory>
#include <string>

#include "core/base/wait.h"
#include "core/engine/model/load_plan.h"
#include "core/engine/model/model_chat.h"
#include "core/engine/model/model_constraints.h"
#include "core/engine/model/resident_model.h"

namespace quire {

// A loaded model with everything that requests need. Immutable.
struct LoadedModel {
  std::shared_ptr<const ResidentModel> resident;
  std::shared_ptr<const Model> model;  // that of `resident`
  std::string generation_config;       // text of generation_config.json; empty if there is none
  std::shared_ptr<ModelChat> chat = std::make_shared<ModelChat>();
  std::shared_ptr<ModelConstraints> constraints = std::make_shared<ModelConstraints>();
};

// Loads the first variant that fits into memory. A lazy load only reads metadata; the first job loads the
// weights. Throws ErrorCode::invalid_argument without a path, ErrorCode::cancelled or ErrorCode::timeout when
// the wait ends the load, and the errors of plan_options and ResidentModel::load.
LoadedModel load_model(const std::shared_ptr<Runtime>& runtime, DeviceRegistry& devices,
                       const ModelLoadOptions& load, const Wait& wait);

}  // namespace quire
