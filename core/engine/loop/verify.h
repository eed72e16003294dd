// What came of a step, before any of it takes effect.
// Accepts or rejects draft tokens (speculative decoding).
#pragma once

#include <vector>

#include "core/engine/loop/token_sampling.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

class Trial;

// Writes to the plan and to JobStep alone: what a job is stays as it was, so that a step can still come to
// nothing. One thread at a time.
class Verify {
 public:
  Verify(Executor& executor, TokenSampling& drawing) : executor_(executor), token_sampling_(drawing) {}

  // Never throws: what goes wrong with a job is in its step.
  void verify(StepPlan& plan, const Drawn& drawn) noexcept;

 private:
  // `guide` is the job's other lane, where that takes part too; else it is null.
  void verify_lanes(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn);
  void verify_prompt(PlannedLane& planned, const Drawn& drawn) const;
  void verify_score(const PlannedLane& planned, const Drawn& drawn);
  void verify_tokens(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn);
  bool draw_next(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn, int32_t num_after);
  bool take(const PlannedLane& planned, SampledToken sampled);
  void take_forced(JobRecord& job, Trial& trial);
  void pool_states(const PlannedLane& planned);
  void add_states(Pool& pool, int32_t first_row, int32_t num_rows);

  Executor& executor_;
  TokenSampling& token_sampling_;
  std::vector<float> states_;
  TokenIds forced_;
};

}  // namespace quire
