// DRY ("don't repeat yourself") penalty: finds tokens that would extend a repetition of earlier text.
#pragma once

#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/sampling/settings.h"

namespace quire {

struct Continuation {
  TokenId token = 0;
  int32_t length = 0;  // length of the longest earlier match of the newest tokens that it followed
};

// Finds the continuations of `tokens` (oldest first) whose length is at least settings.dry_allowed_length,
// each token once, in order of first occurrence. `lengths` is scratch of the vocabulary's size, all 0 on
// entry and on return; `found` is overwritten. Time: one comparison for each token in range, and up to
// dry_max_length for each position that matches.
void find_continuations(gsl::span<const TokenId> tokens, const SamplingSettings& settings,
                        gsl::span<int32_t> lengths, std::vector<Continuation>& found);

// Returns the penalty subtracted from the logit of a continuation.
double dry_penalty(const SamplingSettings& settings, int32_t length);

}  // namespace quire
