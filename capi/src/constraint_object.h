// The object of a quire_constraint and a quire_matcher.
#pragma once

#include <memory>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/constrained/constraint.h"

namespace quire::capi {

struct ConstraintObject final : Object {
  explicit ConstraintObject(std::shared_ptr<const Constraint> the_constraint)
      : constraint(std::move(the_constraint)) {}
  const std::shared_ptr<const Constraint> constraint;
};

struct MatcherObject final : Object {
  explicit MatcherObject(std::shared_ptr<const Constraint> constraint) : matcher(std::move(constraint)) {}
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
