// Interface of constrained decoding: which tokens a grammar or schema allows next. Called by the engine,
// implemented by core/constrained.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Position of one text in a constraint. For one thread at a time. May throw ErrorCode::out_of_memory or
// ErrorCode::capacity, which ends the job.
class TokenMatcher {
 public:
  virtual ~TokenMatcher() = default;
  // Writes the mask of tokens that may come next: bit (id % 32) of word (id / 32). End-of-text tokens are not
  // included; the engine adds them if may_end().
  virtual void mask(gsl::span<uint32_t> words) = 0;
  // Advances by one token. Returns false and changes nothing if the token is not allowed.
  virtual bool accept(TokenId token) = 0;
  // Undoes the last num_tokens accepted tokens.
  virtual void rollback(int32_t num_tokens) = 0;
  // Returns whether `force` may ever return a token.
  virtual bool forces() const { return false; }
  // Appends at most max_tokens tokens that are the only possible continuation; none if there is a choice.
  // Changes no state; accept takes each of them.
  virtual void force(int32_t /*max_tokens*/, TokenIds& /*out*/) const {}
  // Returns whether the constraint is fulfilled and every token is allowed from here on.
  virtual bool allows_all() const { return false; }
  // If mask allows no token because of a limit, returns the limit and the remedy; otherwise empty.
  virtual std::string exceeded_limit() const { return {}; }
  // Returns whether the text may end here.
  virtual bool may_end() const = 0;
  // Returns a copy, for a fork.
  virtual std::unique_ptr<TokenMatcher> clone() const = 0;
};

// Immutable; any thread may use it.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Returns a matcher at the start of a text.
  virtual std::unique_ptr<TokenMatcher> start() const = 0;
};

}  // namespace quire
