// Converts the settings of a quire_model_options to the options of a load.
#pragma once

#include "capi/src/options_objects.h"
#include "core/engine/model/load_plan.h"

namespace quire::capi {

ModelLoadOptions load_options(const ModelSettings& settings);

}  // namespace quire::capi
