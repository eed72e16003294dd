// Checks of a request that need no engine thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/jobs/job_record.h"
#include "core/engine/scheduler/fastest_steps.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"

namespace quire {

// Limits that a request is checked against.
struct RequestLimits {
  ExecutorLimits executor;
  int32_t num_tokens = 0;
  int32_t max_seq_len = 0;
  const EngineOptions& options;
  gsl::span<const TokenId> end_tokens{};
  FastestSteps fastest_steps{};
};

// Throws naming the first invalid field. Rejects jobs that can never fit, by the scheduler's own arithmetic.
// Rejects with ErrorCode::deadline_too_short jobs that would miss a deadline even alone at the best speed
// measured so far.
void check_request(const JobRequest& request, const RequestLimits& limits);

// Numbers of tokens of a job, limited by max_seq_len.
struct JobSize {
  int32_t prompt_tokens = 0;
  int32_t guide_tokens = 0;  // prompt of the second lane; 0: there is none
  int32_t new_tokens = 0;    // in each lane
};

// Checks the memory of a job, also for a fork: throws too_large if its lanes can never get their pages.
void check_fit(const JobSize& size, const std::string& name_space, const RequestLimits& limits);
// Returns the new tokens that max_seq_len leaves.
int32_t new_tokens_within(int32_t max_seq_len, const JobSize& size);

// Throws invalid_argument naming the field.
void check_priority(int32_t priority);

// Throws invalid_argument naming the option.
void check_options(const EngineOptions& options, const EngineParts& parts);

}  // namespace quire
