// The constraints that were compiled for a model. Its vocabulary is laid out when the first one is asked for.
#pragma once

#include <memory>
#include <string_view>

#include "core/base/mutex.h"
#include "core/constrained/constraint_cache.h"
#include "core/models/model.h"

namespace quire::capi {

// Any thread.
class ModelConstraints {
 public:
  // As Constraint::compile.
  std::shared_ptr<const Constraint> get(const Model& model, ConstraintKind kind, std::string_view source);
  std::shared_ptr<const TokenVocabulary> vocabulary(const Model& model);
  // Whether a constraint was made for the vocabulary of this model, or for an equal one.
  bool suit(const Model& model, const Constraint& constraint);

 private:
  std::shared_ptr<ConstraintCache> cache_of(const Model& model);

  Mutex mutex_;
  std::shared_ptr<ConstraintCache> cache_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::capi
