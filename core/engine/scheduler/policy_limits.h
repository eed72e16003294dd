// Combines the limits of executor and options for the scheduling policy.
#pragma once

#include <algorithm>

#include "core/engine/scheduler/scheduler_policy.h"
#include "core/engine/settings/engine_options.h"
#include "core/step/executor.h"

namespace quire {

inline PolicyLimits policy_limits(const ExecutorLimits& limits, const EngineOptions& options) {
  PolicyLimits policy;
  policy.max_step_tokens = options.max_chunk_tokens > 0
                               ? std::min(options.max_chunk_tokens, limits.max_tokens)
                               : limits.max_tokens;
  policy.max_running_lanes = std::min({limits.max_sequences, limits.max_logit_rows, limits.max_tokens});
  if (options.max_running_jobs > 0)
    policy.max_running_lanes = std::min(policy.max_running_lanes, options.max_running_jobs);
  // Every running sequence has a slot for its recurrent state.
  if (limits.num_state_slots > 0)
    policy.max_running_lanes = std::min(policy.max_running_lanes, limits.num_state_slots);
  policy.max_logit_rows = limits.max_logit_rows;
  policy.page_tokens = limits.page_tokens;
  for (size_t g = 0; g < limits.windows.size(); ++g) policy.windows[g] = limits.windows[g].window;
  policy.max_overtakes = options.max_overtakes;
  policy.ageing_interval = options.ageing_interval;
  return policy;
}

}  // namespace quire
