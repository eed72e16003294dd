// Plans steps: passes the jobs to the scheduling policy and carries out its decisions.
#pragma once

#include <vector>

#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/step_timing.h"
#include "core/engine/scheduler/scheduler_policy.h"
#include "core/step/step_plan.h"

namespace quire {

// Not thread-safe.
class StepPlanning {
 public:
  StepPlanning(LiveJobs& jobs, KvCache& kv, const PolicyLimits& limits, StepTiming& step_timing);

  // Returns false if no job can run. Throws ErrorCode::out_of_memory after repeated failures for lack of
  // memory.
  bool plan(StepPlan& plan);
  // Adds a lane to a plan, with at most max_tokens of its tokens that are not in the cache, and num_rows rows
  // of logits.
  void add(Lane& lane, int32_t max_tokens, int32_t num_rows, StepPlan& plan);
  // Plans the step after `plan`, which is running, from the state that it will leave. Sets everything in
  // PlannedLane that planning, reservation and sampling set. Returns false if the step cannot be predicted: a
  // waiting job may start, or pages run out. Leaves out jobs whose next token the host samples.
  bool plan_after(const StepPlan& plan, StepPlan& next);
  // When to plan again after a failure for lack of memory; otherwise max().
  TimePoint next_plan_time() const { return retry_.next_plan_time; }

 private:
  void decide();
  bool drop_drafts() noexcept;
  PolicyLimits sized_limits();
  void carry_out(StepPlan& plan);
  void view_jobs();
  bool view_jobs_after(const StepPlan& plan);
  RunningView view_of(const JobRecord& job);
  LaneView view_of(const Lane& lane) const;
  RunningView view_running(const JobRecord& job);
  RunningView view_after(const JobRecord& job, const StepPlan& plan);
  LaneView view_after(const Lane& lane, const StepPlan& plan) const;
  void add_held_pages(const JobRecord& job, const RunningView& view);
  bool add_after(Lane& lane, const LaneView& view, int32_t max_tokens, const StepPlan& plan, StepPlan& next);
  WaitingView view_waiting(const JobRecord& job) const;
  PageDemand demand_of_waiting(const Lane& lane) const;
  SlotCounts unused_slots() const;
  void note_waits();
  JobId find_next_release() const;
  WaitReason reason_of(const BlockedJob& held, JobId next_release) const;

  LiveJobs& jobs_;
  KvCache& kv_;
  const PolicyLimits limits_;
  StepTiming& step_timing_;
  std::vector<RunningView> running_views_;
  std::vector<LaneView> guide_views_;
  std::vector<WaitingView> waiting_views_;
  PolicyOutput policy_;
  std::vector<WaitReason> wait_reasons_;  // same order as the waiting jobs
  bool slots_are_full_ = false;           // in the last plan; no waiting job can start before a change
  uint64_t changes_seen_ = 0;
  struct Retry {
    int32_t num_failures = 0;  // consecutive plans that failed for lack of memory
    TimePoint next_plan_time = TimePoint::max();
  };
  Retry retry_;
};

}  // namespace quire
