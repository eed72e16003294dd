// The tokens that penalties look back on, counted as they come and go.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/sampling/settings.h"
#include "core/sampling/token_counts.h"

namespace quire {

// One thread at a time; a copy is independent. Keeps nothing where the settings look back on nothing.
class TokenHistory {
 public:
  explicit TokenHistory(const SamplingSettings& settings);

  // Takes the memory for so many tokens; within that, append and pop cannot fail.
  void reserve(size_t num_tokens);
  void append(TokenId token);
  // Forgets the newest token; there must be one.
  void pop();

  // Subtracts the penalties from `logits`, a row of the vocabulary; finite logits stay finite. `seen` is
  // scratch of the vocabulary's size, all false on entry and on return.
  void penalise(gsl::span<float> logits, std::vector<bool>& seen) const;

  // Every token, oldest first, where the settings look back on any.
  gsl::span<const TokenId> tokens() const { return tokens_; }
  // The tokens within reach; all that penalise goes by unless the history fades.
  gsl::span<const TokenCounts::Entry> counts() const { return counts_.entries(); }
  // Whether tokens beyond the range still count for a share.
  bool fades() const { return counts_tokens_ && decay_ > 0 && tokens_.size() > range_; }

 private:
  void penalise_faded(gsl::span<float> logits, std::vector<bool>& seen) const;

  bool keeps_tokens_;   // penalties or DRY
  bool counts_tokens_;  // penalties
  float repetition_;
  float frequency_;
  float presence_;
  size_t range_;  // SIZE_MAX is all
  size_t decay_;
  std::vector<TokenId> tokens_;  // oldest first
  TokenCounts counts_;           // of the newest range_ tokens
};

}  // namespace quire
