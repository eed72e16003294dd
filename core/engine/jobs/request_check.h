// Everything about a request that can be refused before it reaches the engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/jobs/job_record.h"
#include "core/engine/scheduler/fastest_steps.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/engine_parts.h"

namespace quire {

// What a request is checked against.
struct RequestLimits {
  ExecutorLimits executor;
  int32_t num_tokens = 0;
  int32_t max_seq_len = 0;
  const EngineOptions& options;
  gsl::span<const TokenId> end_tokens{};
  FastestSteps fastest_steps{};
};

// Throws naming the first field at fault; refuses by the scheduler's own arithmetic what can never fit, and
// with ErrorCode::deadline_too_short what could not be in time if the job ran alone at the best speed there
// has been.
void check_request(const JobRequest& request, const RequestLimits& limits);

// Tokens of a job, which end at max_seq_len.
struct JobSize {
  int32_t prompt_tokens = 0;
  int32_t guide_tokens = 0;  // of the prompt of its second lane; 0: it has none
  int32_t new_tokens = 0;    // in each
};

// The part of it that a fork needs as well: throws too_large where the lanes of a job can never have their
// pages.
void check_fit(const JobSize& size, const std::string& name_space, const RequestLimits& limits);
// What is left of max_new_tokens by max_seq_len.
int32_t new_tokens_within(int32_t max_seq_len, const JobSize& size);

// Throws invalid_argument naming the field.
void check_priority(int32_t priority);

// Throws invalid_argument naming the option.
void check_options(const EngineOptions& options, const EngineParts& parts);

}  // namespace quire
