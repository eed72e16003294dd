// Object of a quire_model.
#pragma once

#include <memory>
#include <string>

#include "capi/src/runtime_object.h"
#include "core/engine/model/model_loader.h"

namespace quire::capi {

// Runtime in which a model was loaded, and the options that its caches need.
struct ModelOrigin {
  std::shared_ptr<RuntimeShare> runtime;
  std::string device;  // a name or a list of names; empty: the runtime's default
};

// A loaded model and its runtime, which is destroyed after it. Shared by its handle and the caches created
// from it. Immutable.
struct ModelShare : ModelOrigin, LoadedModel {};

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
