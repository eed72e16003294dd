// From jobs to the plan of a step: what the policy is shown, and how its decisions are carried out.
#pragma once

#include <vector>

#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/step_timing.h"
#include "core/engine/scheduler/scheduler_policy.h"
#include "core/step/step_plan.h"

namespace quire {

// One thread at a time.
class StepPlanning {
 public:
  StepPlanning(LiveJobs& jobs, KvCache& kv, const PolicyLimits& limits, StepTiming& pace);

  // False where nothing can run. Throws ErrorCode::out_of_memory where there was none again and again.
  bool plan(StepPlan& plan);
  // A part of a plan: at most max_tokens of what the cache does not hold of a lane, and num_rows of logits.
  void add(Lane& lane, int32_t max_tokens, int32_t num_rows, StepPlan& plan);
  // The step after `plan`, which is under way, from the state that it will leave: all of a PlannedLane that
  // plan, reservation and draws tell. False where it cannot be told: a waiting job may begin, or pages run
  // out. A job whose next token the host draws sits it out.
  bool plan_after(const StepPlan& plan, StepPlan& next);
  // When to plan again where there was no memory for it; max() else.
  TimePoint plan_again() const { return plan_again_; }

 private:
  void decide();
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
  std::vector<WaitReason> wait_reasons_;  // as the waiting jobs
  bool places_are_taken_ = false;         // as of the last plan: no waiting job could begin before a change
  uint64_t changes_seen_ = 0;
  int32_t num_failures_ = 0;  // plans in a row without memory
  TimePoint plan_again_ = TimePoint::max();
};

}  // namespace quire
