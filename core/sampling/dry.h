// DRY, "don't repeat yourself": tokens that would prolong a repetition of what was written before.
#pragma once

#include <vector>

#include <gsl/gsl>

#include "core/base/ids.h"
#include "core/sampling/settings.h"

namespace quire {

struct Continuation {
  TokenId token = 0;
  int32_t length = 0;  // of the longest earlier occurrence of the newest tokens that it followed
};

// The continuations of `tokens` (oldest first) whose length reaches settings.dry_allowed_length, each token
// once, in the order in which they first occur. `lengths` is scratch of the vocabulary's size, all 0 on entry
// and on return; `found` is overwritten. Time: one comparison for each token in range, and dry_max_length for
// each place that matches.
void find_continuations(gsl::span<const TokenId> tokens, const SamplingSettings& settings,
                        gsl::span<int32_t> lengths, std::vector<Continuation>& found);

// What is taken off the logit of a continuation.
double dry_penalty(const SamplingSettings& settings, int32_t length);

}  // namespace quire
