// Scoring as a call that waits: jobs of kind `score`, one for each window.
#pragma once

#include <cstdint>

#include <gsl/gsl>

#include "core/base/wait.h"
#include "core/engine/engine.h"
#include "core/engine/jobs/job_request.h"

namespace quire::capi {

struct ScoreCall {
  Engine& cache;
  const JobRequest& request;  // of each window, but for its tokens; its prompt is all of them
  Wait wait;
};

// out[i] = log-probability of tokens[i] in its window, NaN for the first of each; `out` is as long as the
// prompt. Throws what the jobs throw, ErrorCode::timeout or ErrorCode::cancelled; no job is left then.
void score_windows(const ScoreCall& call, size_t window_tokens, gsl::span<float> out);

// Gives the logits of all tokens as one window, [tokens, cache.num_tokens()], to `read`.
void score_logits(const ScoreCall& call, const Job::ReadValues& read);

}  // namespace quire::capi
