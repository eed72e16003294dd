// The tokens that penalties look back on, counted as they come and go.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/sampling/settings.h"

namespace quire {

// One thread at a time; a copy is independent. Keeps nothing where the settings have no penalties.
class TokenHistory {
 public:
  explicit TokenHistory(const SamplingSettings& settings);

  void append(TokenId token);
  // Forgets the newest token; there must be one.
  void pop();

  // Subtracts the penalties from `logits`, a row of the vocabulary; finite logits stay finite. `seen` is
  // scratch of the vocabulary's size, all false on entry and on return.
  void penalise(gsl::span<float> logits, std::vector<bool>& seen) const;

 private:
  void penalise_faded(gsl::span<float> logits, std::vector<bool>& seen) const;
  void count(TokenId token);
  void uncount(TokenId token);

  bool enabled_;
  float repetition_;
  float frequency_;
  float presence_;
  size_t range_;  // SIZE_MAX is all
  size_t decay_;
  std::vector<TokenId> tokens_;                  // oldest first
  std::unordered_map<TokenId, int32_t> counts_;  // of the newest range_ tokens; no zero entries
};

}  // namespace quire
