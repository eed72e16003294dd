// The object of a quire_model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capi/src/chat_render.h"
#include "capi/src/model_constraints.h"
#include "capi/src/runtime_object.h"
#include "core/engine/model/resident_model.h"

namespace quire::capi {

// A loaded model with all it needs. Shared by the handle and by the caches made from it; never changes.
struct ModelShare {
  std::shared_ptr<RuntimeShare> runtime;
  std::string device;  // its name; empty is the runtime's default
  std::shared_ptr<const ResidentModel> home;
  std::shared_ptr<const Model> model;  // the home's
  std::string generation_config;       // the text of generation_config.json; empty where there is none
  std::shared_ptr<ModelChat> chat = std::make_shared<ModelChat>();
  std::shared_ptr<ModelConstraints> constraints = std::make_shared<ModelConstraints>();
};

struct ModelObject final : Object {
  explicit ModelObject(std::shared_ptr<const ModelShare> the_share)
      : share(std::move(the_share)), counted(share->runtime->census(), HandleType::model) {}
  const std::shared_ptr<const ModelShare> share;
  const CensusEntry counted;
};

template <>
struct HandleTraits<quire_model> {
  using Object = ModelObject;
  static constexpr HandleType type = HandleType::model;
};

}  // namespace quire::capi
