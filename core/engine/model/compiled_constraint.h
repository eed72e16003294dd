// Adapter from a compiled constraint to the engine's TokenConstraint.
#pragma once

#include <memory>
#include <utility>

#include "core/constrained/constraint.h"
#include "core/step/token_matcher.h"

namespace quire {

// Needs a constraint that was compiled for the vocabulary of the engine's model.
class CompiledConstraint final : public TokenConstraint {
 public:
  explicit CompiledConstraint(std::shared_ptr<const Constraint> constraint)
      : constraint_(std::move(constraint)) {}

  std::unique_ptr<TokenMatcher> start() const override;

 private:
  std::shared_ptr<const Constraint> constraint_;
};

}  // namespace quire
