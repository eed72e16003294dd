// A limit of how long a model reasons, and what ends it there.
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

// How an answer of the dialect goes over from reasoning to text; empty where it has no reasoning.
std::string end_of_reasoning(const Dialect& dialect);

// After so many tokens of reasoning the tokens of its end come, as far as another constraint lets them
// through; not in the midst of a character. What comes after them is free, or the other constraint's.
class ReasoningBudget final : public TokenConstraint {
 public:
  struct Parts {
    std::shared_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<const ResponseParser> reader;  // before the first token
    std::shared_ptr<const TokenConstraint> other;  // null: none
    TokenIds end;                                  // not empty
    int32_t max_tokens = 0;
  };

  explicit ReasoningBudget(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

  std::unique_ptr<TokenMatcher> start() const override;

 private:
  class Place;

  std::shared_ptr<const Parts> parts_;
};

}  // namespace quire
