// History of tokens for repetition, frequency and presence penalties, with counts.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/sampling/settings.h"
#include "core/sampling/token_counts.h"

namespace quire {

// For one thread at a time; a copy is independent. Stores nothing if the settings need no history.
class TokenHistory {
 public:
  explicit TokenHistory(const SamplingSettings& settings);

  // Reserves memory for so many tokens; up to that number, append and pop cannot fail.
  void reserve(size_t num_tokens);
  void append(TokenId token);
  // Removes the newest token; there must be one.
  void pop();

  // Subtracts the penalties from `logits`, a row of the vocabulary; finite logits remain finite. `seen` is
  // scratch of the vocabulary's size, all false on entry and on return.
  void penalise(gsl::span<float> logits, std::vector<bool>& seen) const;

  // Returns all tokens, oldest first, if the settings need a history.
  gsl::span<const TokenId> tokens() const { return tokens_; }
  // Returns the tokens in range with their counts. Without fading, penalties depend only on these.
  gsl::span<const TokenCounts::Entry> counts() const { return counts_.entries(); }
  // Returns whether tokens beyond the range still count partially.
  bool fades() const { return counts_tokens_ && decay_ > 0 && tokens_.size() > range_; }

 private:
  void penalize_faded(gsl::span<float> logits, std::vector<bool>& seen) const;

  bool keeps_tokens_;   // penalties or DRY
  bool counts_tokens_;  // penalties
  float repetition_;
  float frequency_;
  float presence_;
  size_t range_;  // SIZE_MAX: all tokens
  size_t decay_;
  std::vector<TokenId> tokens_;  // oldest first
  TokenCounts counts_;           // of the newest range_ tokens
};

}  // namespace quire
