// A limit for the reasoning tokens of an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/base/ids.h"
#include "core/response/response_parser.h"
#include "core/step/token_matcher.h"
#include "core/tokenizer/tokenizer.h"

namespace quire {

// Returns the text that ends reasoning in the dialect's answers; empty if the dialect has no reasoning.
std::string end_of_reasoning(const Dialect& dialect);

// After max_tokens of reasoning, forces the tokens that end it, as far as another constraint permits them,
// and never in the middle of a character. The tokens after the end are free, or subject to the other
// constraint.
class ReasoningBudget final : public TokenConstraint {
 public:
  struct Parts {
    std::shared_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<const ResponseParser> reader;  // in its state before the first token
    std::shared_ptr<const TokenConstraint> other;  // may be null
    TokenIds end;                                  // tokens that end reasoning; not empty
    int32_t max_tokens = 0;
  };

  explicit ReasoningBudget(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

  std::unique_ptr<TokenMatcher> start() const override;

 private:
  class Place;

  std::shared_ptr<const Parts> parts_;
};

}  // namespace quire
