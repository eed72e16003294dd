// Scoring as a call that waits: jobs of kind `score`, one for each window.
#pragma once

#include <cstdint>
#include <memory>

#include <gsl/gsl>

#include "capi/src/cancel_object.h"
#include "core/engine/cache.h"

namespace quire::capi {

struct ScoreCall {
  Cache& cache;
  gsl::span<const TokenId> tokens;
  Duration timeout{0};
  std::shared_ptr<CancelSwitch> cancel;  // may be null
};

// out[i] = log-probability of tokens[i] in its window, NaN for the first of each; `out` is as long as tokens.
// Throws what the jobs throw, ErrorCode::timeout or ErrorCode::cancelled; no job is left then.
void score_windows(const ScoreCall& call, size_t window_tokens, gsl::span<float> out);

// The logits of all tokens as one window, [tokens, cache.num_tokens()].
std::vector<float> score_logits(const ScoreCall& call);

}  // namespace quire::capi
