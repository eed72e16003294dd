// Everything about a request that can be refused before it reaches the engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/engine/cache.h"
#include "core/engine/jobs/job_record.h"
#include "core/engine/loop/fastest_steps.h"

namespace quire {

// What a request is checked against.
struct RequestLimits {
  ExecutorLimits executor;
  int32_t num_tokens = 0;
  int32_t max_seq_len = 0;
  const CacheOptions& options;
  gsl::span<const TokenId> end_tokens{};
  FastestSteps fastest_steps{};
};

// Throws naming the first field at fault; refuses by the scheduler's own arithmetic what can never fit, and
// with ErrorCode::deadline_too_short what could not be in time if the job ran alone at the best speed there
// has been.
void check_request(const JobRequest& request, const RequestLimits& limits);

// The part of it that a fork needs as well: throws capacity or quota where a sequence of num_tokens, cut at
// max_seq_len, can never have its pages.
void check_fit(int64_t num_tokens, const std::string& name_space, const RequestLimits& limits);

// Throws invalid_argument naming the field.
void check_priority(int32_t priority);

// Throws invalid_argument naming the option.
void check_options(const CacheOptions& options, const CacheParts& parts);

}  // namespace quire
