// Objects of a quire_constraint and a quire_matcher.
#pragma once

#include <memory>
#include <utility>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/constrained/constraint.h"
#include "core/engine/requests/request_spec.h"

namespace quire::capi {

struct ConstraintObject final : Object {
  explicit ConstraintObject(ConstraintChoice the_choice) : choice(std::move(the_choice)) {}
  const ConstraintChoice choice;
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
