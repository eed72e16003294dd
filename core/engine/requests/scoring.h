// Scores a long text in windows: submits a job of kind `score` for each window and waits for the jobs.
#pragma once

#include <cstdint>

#include <gsl/gsl>

#include "core/base/wait.h"
#include "core/engine/engine.h"
#include "core/engine/jobs/job_request.h"

namespace quire {

struct ScoreCall {
  Engine& engine;
  const JobRequest&
      request;  // its prompt has the tokens of all windows; the other fields apply to each window
  Wait wait;
};

// Sets out[i] to the log probability of tokens[i] in its window, and to NaN for the first token of each
// window. `out` is as long as the prompt. Throws the errors of the jobs, ErrorCode::timeout or
// ErrorCode::cancelled, and cancels all jobs then.
void score_windows(const ScoreCall& call, size_t window_tokens, gsl::span<float> out);

// Passes the logits of all tokens as one window, [tokens, engine.num_tokens()], to `read`. Throws like
// score_windows.
void score_logits(const ScoreCall& call, const Job::ReadValues& read);

}  // namespace quire
