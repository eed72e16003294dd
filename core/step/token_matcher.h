// What may be said next, as a grammar or a schema has it. The engine asks; core/constrained answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <gsl/gsl>

#include "core/base/ids.h"

namespace quire {

// Where one text stands in a constraint. One thread at a time. May throw ErrorCode::out_of_memory or
// ErrorCode::capacity: the job ends with it.
class TokenMatcher {
 public:
  virtual ~TokenMatcher() = default;
  // Writes which tokens may come next: bit (id % 32) of word (id / 32). Tokens that end a text are the
  // engine's: it adds them where may_end.
  virtual void mask(gsl::span<uint32_t> words) = 0;
  // Goes on by one token. False where it is not allowed; nothing has changed then.
  virtual bool accept(TokenId token) = 0;
  // Takes the last num_tokens accepted ones back.
  virtual void rollback(int32_t num_tokens) = 0;
  // Whether force may ever give a token.
  virtual bool forces() const { return false; }
  // Appends at most max_tokens tokens that come next without a choice; none where there is one. Nothing has
  // changed; accept takes each of them.
  virtual void force(int32_t /*max_tokens*/, TokenIds& /*out*/) const {}
  // Whether there is nothing to say any more: every token may come from here on.
  virtual bool allows_all() const { return false; }
  // Where mask has no token: the limit that left none, and the way out. Empty where no limit did.
  virtual std::string limit_met() const { return {}; }
  // Whether the text may be over here.
  virtual bool may_end() const = 0;
  // For a fork.
  virtual std::unique_ptr<TokenMatcher> clone() const = 0;
};

// Immutable; any thread.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Before the first token of a text.
  virtual std::unique_ptr<TokenMatcher> start() const = 0;
};

}  // namespace quire
