// Constraints compiled for a model, and its token vocabulary.
#pragma once

#include <memory>
#include <string_view>

#include "core/base/mutex.h"
#include "core/constrained/constraint_cache.h"
#include "core/models/model.h"

namespace quire {

// Builds the vocabulary at the first call. Thread-safe.
class ModelConstraints {
 public:
  // Returns the cache of the model's vocabulary.
  std::shared_ptr<ConstraintCache> cache_of(const Model& model);
  // Returns the compiled constraint, from the cache if there is one. Throws like Constraint::compile.
  std::shared_ptr<const Constraint> get(const Model& model, ConstraintKind kind, std::string_view source,
                                        const JsonForm& form);
  std::shared_ptr<const TokenVocabulary> vocabulary(const Model& model);
  // True if the constraint was compiled for the vocabulary of this model, or for an equal one.
  bool suit(const Model& model, const Constraint& constraint);

 private:
  Mutex mutex_;
  std::shared_ptr<ConstraintCache> cache_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
