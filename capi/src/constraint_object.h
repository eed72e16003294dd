// Objects of a quire_constraint and a quire_matcher.
#pragma once

#include <memory>
#include <utility>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/constrained/constraint_cache.h"
#include "core/engine/requests/request_spec.h"

namespace quire::capi {

struct ConstraintObject final : Object {
  ConstraintObject(ConstraintChoice the_choice, std::shared_ptr<ConstraintCache> the_cache)
      : choice(std::move(the_choice)), cache(std::move(the_cache)) {}
  const ConstraintChoice choice;  // in the form in which jobs draw by default
  const std::shared_ptr<ConstraintCache> cache;
};

struct MatcherObject final : Object {
  explicit MatcherObject(const std::shared_ptr<const Constraint>& constraint) : matcher(constraint) {}
  Mutex mutex;
  Matcher matcher QUIRE_GUARDED_BY(mutex);
};

template <>
struct HandleTraits<quire_constraint> {
  using Object = ConstraintObject;
  static constexpr HandleType type = HandleType::constraint;
};

template <>
struct HandleTraits<quire_matcher> {
  using Object = MatcherObject;
  static constexpr HandleType type = HandleType::matcher;
};

}  // namespace quire::capi
