// The object of a quire_constraint and a quire_matcher.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/constrained/constraint.h"
#include "core/response/response_grammar.h"

namespace quire::capi {

// A constraint, and the model for whose vocabulary it was made.
struct ConstraintShare {
  std::shared_ptr<const Constraint> constraint;
  std::string model_path;
  // Of an answer where they do not say where reasoning begins: `constraint` has it closed, and a request
  // whose prompt has opened it, or that reads none, gets another one of them.
  std::shared_ptr<const ResponseRules> rules;
};

struct ConstraintObject final : Object {
  explicit ConstraintObject(ConstraintShare the_share) : share(std::move(the_share)) {}
  const ConstraintShare share;
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
