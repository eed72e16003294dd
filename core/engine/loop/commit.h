// The only place where a step changes what jobs are.
#pragma once

#include "core/engine/loop/live_jobs.h"
#include "core/step/step_plan.h"

namespace quire {

// One thread at a time. Memory for new tokens was taken at submit; that for text and events may be wanting,
// which ends its job alone.
class Commit {
 public:
  Commit(const Clock& clock, LiveJobs& jobs, const KvCache& kv) : clock_(clock), jobs_(jobs), kv_(kv) {}

  // After the pages are committed.
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
