// Object of a quire_plan.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "capi/src/handle.h"
#include "core/engine/model/model_plan.h"

namespace quire::capi {

struct PlanObject final : Object {
  PlanObject(ModelPlan the_plan, std::vector<std::string> device_names, std::string model_path,
             std::string drafter_name)
      : plan(std::move(the_plan)),
        names(std::move(device_names)),
        path(std::move(model_path)),
        drafter(std::move(drafter_name)) {}
  const ModelPlan plan;
  const std::vector<std::string> names;  // of the devices
  const std::string path;                // of the model
  const std::string drafter;             // name of its draft network; empty if it has none
};

template <>
struct HandleTraits<quire_plan> {
  using Object = PlanObject;
  static constexpr HandleType type = HandleType::plan;
};

}  // namespace quire::capi
