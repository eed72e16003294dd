// Verifies the results of a step before any of them takes effect. Accepts or rejects draft tokens
// (speculative decoding).
#pragma once

#include <vector>

#include "core/engine/loop/token_sampling.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

class Trial;

// Writes only to the plan and to JobStep, so that a step can still be discarded. Not thread-safe.
class Verify {
 public:
  Verify(Executor& executor, TokenSampling& drawing) : executor_(executor), token_sampling_(drawing) {}

  // Never throws: errors of a job are stored in its step.
  void verify(StepPlan& plan, const Drawn& drawn) noexcept;

 private:
  // `guide`: the job's second lane if it takes part in the step, otherwise null.
  void verify_lanes(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn);
  void verify_prompt(PlannedLane& planned, const Drawn& drawn) const;
  void verify_score(const PlannedLane& planned, const Drawn& drawn);
  void verify_tokens(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn);
  bool draw_next(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn, int32_t num_after);
  bool take(const PlannedLane& planned, SampledToken sampled);
  void take_forced(JobRecord& job, Trial& trial);
  void add_forced(JobRecord& job);
  void pool_states(const PlannedLane& planned);
  void add_states(Pool& pool, int32_t first_row, int32_t num_rows);

  Executor& executor_;
  TokenSampling& token_sampling_;
  std::vector<float> states_;
  TokenIds forced_;
};

}  // namespace quire
