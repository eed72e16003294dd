// Applies the results of a step to its jobs. No other part of a step changes a job.
#pragma once

#include "core/engine/loop/live_jobs.h"
#include "core/step/step_plan.h"

namespace quire {

// Not thread-safe. Memory for new tokens was allocated at submission. If memory for text or events is short,
// only the job concerned fails.
class Commit {
 public:
  Commit(const Clock& clock, LiveJobs& jobs, const KvCache& kv) : clock_(clock), jobs_(jobs), kv_(kv) {}

  // Must be called after the pages are committed.
  void commit(const StepPlan& plan) noexcept;

 private:
  void commit_lane(const PlannedLane& planned) noexcept;
  void commit_job(JobRecord& job) noexcept;
  void take_tokens(JobRecord& job);
  void count_lane(const PlannedLane& planned) noexcept;
  void count_draws(JobRecord& job) noexcept;
  void measure_token(JobRecord& job) noexcept;
  void take_prompt(const PlannedLane& planned) noexcept;
  void emit(JobRecord& job);

  const Clock& clock_;
  LiveJobs& jobs_;
  const KvCache& kv_;
};

}  // namespace quire
