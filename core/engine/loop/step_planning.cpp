// Plans steps: passes the jobs to the scheduling policy and carries out its decisions.
#include "core/engine/loop/step_planning.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/engine/scheduler/job_lanes.h"

namespace quire {

namespace {

// Maximum number of consecutive plans that may fail for lack of memory before the engine fails; this takes a
// little over a second.
constexpr int32_t kMaxPlanFailures = 16;

// Returns the pause before the next attempt: 1 ms, 2 ms, and so on up to 128 ms.
Duration pause_after_failure(int32_t num_failures) {
  return std::chrono::milliseconds(1 << std::min(num_failures - 1, 7));
}

}  // namespace

StepPlanning::StepPlanning(LiveJobs& jobs, KvCache& kv, const PolicyLimits& limits, StepTiming& step_timing)
    : jobs_(jobs), kv_(kv), limits_(limits), step_timing_(step_timing) {}

// A plan that fails for lack of memory is retried with the next step, or after a pause if nothing else wakes
// the engine.
bool StepPlanning::plan(StepPlan& plan) {
  plan.lanes.clear();
  retry_.next_plan_time = TimePoint::max();
  if (jobs_.empty()) return false;
  try {
    decide();
    carry_out(plan);
    slots_are_full_ = policy_.blocked.has_value() && policy_.blocked->cause == BlockedJob::Cause::slots;
    changes_seen_ = jobs_.num_changes();
    retry_.num_failures = 0;
  } catch (const std::bad_alloc&) {
    jobs_.move_admitted();
    plan.lanes.clear();
    if (++retry_.num_failures > kMaxPlanFailures)
      throw Error(ErrorCode::out_of_memory, "no memory to plan a step");
    retry_.next_plan_time = jobs_.now() + pause_after_failure(retry_.num_failures);
  }
  return !plan.empty();
}

// Runs the policy until nothing must be preempted or unpinned first.
void StepPlanning::decide() {
  for (;;) {
    view_jobs();
    plan_step({sized_limits(), kv_.pool().num_available(), running_views_, waiting_views_,
               jobs_.name_spaces().views(),
               [this](int32_t index) {
                 return demand_of_waiting(jobs_.waiting()[static_cast<size_t>(index)]->lane);
               },
               unused_slots(), guide_views_,
               [this](int32_t index) {
                 return demand_of_waiting(*jobs_.waiting()[static_cast<size_t>(index)]->guide);
               }},
              policy_);
    if (policy_.lacks_places && kv_.max_lanes() < limits_.max_running_lanes && kv_.grow()) continue;
    const bool lacks = policy_.lacks_pages || policy_.preempt.has_value();
    if (lacks && drop_drafts()) continue;
    if (policy_.lacks_pages && kv_.grow()) continue;
    if (policy_.preempt.has_value()) {
      jobs_.preempt(*jobs_.running()[static_cast<size_t>(*policy_.preempt)]);
      continue;
    }
    const bool stuck = policy_.grants.empty() && policy_.blocked.has_value() && jobs_.running().empty();
    if (!stuck || !jobs_.drop_oldest_pin()) return;
  }
}

// Removes the draft tokens of all jobs: a step never takes pages of others for them. Returns false if there
// are none.
bool StepPlanning::drop_drafts() noexcept {
  bool any = false;
  for (const auto& job : jobs_.running()) {
    any = any || job->lane.num_candidates > 0;
    job->drop_candidates();
  }
  return any;
}

// Returns the limits, with the tokens of the step limited by its expected time. Uses running_views_.
PolicyLimits StepPlanning::sized_limits() {
  int32_t num_streams = 0;
  int32_t num_prompts = 0;
  int32_t num_lanes = 0;
  for (const RunningView& view : running_views_) {
    const Lanes lanes = lanes_of(view, guide_views_);
    num_lanes += lanes.count();
    if (!view.runnable) continue;
    if (generates(view, guide_views_)) {
      num_streams += lanes.count() * lanes.num_last;
    } else {
      ++num_prompts;
    }
  }
  const auto num_waiting = std::count_if(waiting_views_.begin(), waiting_views_.end(),
                                         [](const WaitingView& view) { return view.runnable; });
  num_prompts +=
      std::min(static_cast<int32_t>(num_waiting), std::max(0, limits_.max_running_lanes - num_lanes));
  PolicyLimits limits = limits_;
  limits.max_running_lanes = std::min(limits.max_running_lanes, kv_.max_lanes());
  limits.max_step_tokens =
      std::min(limits.max_step_tokens, step_timing_.step_tokens(num_streams, num_prompts));
  return limits;
}

void StepPlanning::view_jobs() {
  running_views_.clear();
  guide_views_.clear();
  waiting_views_.clear();
  jobs_.name_spaces().clear_held_pages();
  for (const auto& job : jobs_.running()) {
    running_views_.push_back(view_running(*job));
    track_pauses(*job, !running_views_.back().runnable, jobs_.now());
    add_held_pages(*job, running_views_.back());
  }
  for (const auto& job : jobs_.waiting()) waiting_views_.push_back(view_waiting(*job));
}

void StepPlanning::add_held_pages(const JobRecord& job, const RunningView& view) {
  jobs_.name_spaces().add_held_pages(job.name_space, held_pages(lanes_of(view, guide_views_)));
}

// Returns the view of a job without its state in the cache.
RunningView StepPlanning::view_of(const JobRecord& job) {
  RunningView view;
  view.order = job.id.value;
  view.priority = job.admitted_priority;
  view.deadline = job.deadline();
  view.runnable = job.runnable();
  view.suspect = job.suspect;
  view.wants_all_rows = job.request.kind == JobKind::score;
  view.num_candidates = job.lane.num_candidates;
  view.num_forced = job.lane.num_forced;
  view.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  view.tokens = job.lane.tokens;
  view.name_space = job.name_space;
  if (job.guide) view.guide = static_cast<int32_t>(guide_views_.size());
  return view;
}

RunningView StepPlanning::view_running(const JobRecord& job) {
  RunningView view = view_of(job);
  view.demand = kv_.demand(*job.lane.sequence, job.lane.known());
  if (job.guide) guide_views_.push_back(view_of(*job.guide));
  return view;
}

LaneView StepPlanning::view_of(const Lane& lane) const {
  return {lane.tokens, 0, 0, kv_.demand(*lane.sequence, lane.known())};
}

WaitingView StepPlanning::view_waiting(const JobRecord& job) const {
  WaitingView view;
  view.order = job.id.value;
  view.priority = job.request.priority;
  view.waited = jobs_.now() - job.submitted;
  view.deadline = job.deadline();
  view.overtaken = job.overtaken;
  view.runnable = job.runnable();
  view.wants_all_rows = job.request.kind == JobKind::score;
  view.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  view.tokens = job.lane.tokens;
  if (job.guide) view.guide_tokens = job.guide->tokens;
  view.name_space = job.name_space;
  return view;
}

SlotCounts StepPlanning::unused_slots() const {
  SlotCounts unused{};
  for (size_t g = 0; g < kv_.windows().size(); ++g) unused[g] = kv_.windows()[g].num_unused();
  return unused;
}

PageDemand StepPlanning::demand_of_waiting(const Lane& lane) const {
  const JobRequest& request = lane.job->request;
  PageDemand demand;
  if (request.reuse_prefix) demand = kv_.demand({request.name_space, lane.adapter_generation}, lane.tokens);
  demand.publishes = request.publish_pages;
  return demand;
}

void StepPlanning::carry_out(StepPlan& plan) {
  for (const int32_t index : policy_.overtaken) ++jobs_.waiting()[static_cast<size_t>(index)]->overtaken;
  note_waits();
  for (const Grant& grant : policy_.grants) {
    JobRecord& job = *(grant.admits ? jobs_.waiting() : jobs_.running())[static_cast<size_t>(grant.index)];
    if (grant.admits) jobs_.admit(job, grant.priority);
    if (grant.max_tokens > 0) add(job.lane, grant.max_tokens, grant.num_logit_rows, plan);
    if (grant.guide_tokens > 0) add(*job.guide, grant.guide_tokens, grant.num_logit_rows, plan);
  }
  jobs_.move_admitted();
}

void StepPlanning::add(Lane& lane, int32_t max_tokens, int32_t num_rows, StepPlan& plan) {
  JobRecord& job = *lane.job;
  job.step.begin();
  job.step.drawn.reserve(static_cast<size_t>(lane.num_candidates) + 1);
  PlannedLane planned;
  planned.lane = &lane;
  planned.max_tokens = max_tokens;
  planned.num_rows = num_rows;
  planned.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  lane.place = static_cast<int32_t>(plan.lanes.size());
  plan.lanes.push_back(planned);
}

namespace {

// Returns the lane's entry in a plan, or null if it takes no part.
const PlannedLane* find_planned_lane(const StepPlan& plan, const Lane& lane) {
  const auto place = static_cast<size_t>(lane.place);
  const bool takes_part = lane.place >= 0 && place < plan.lanes.size() && plan.lanes[place].lane == &lane;
  return takes_part ? &plan.lanes[place] : nullptr;
}

// True if a job continues after the token that this step samples, whichever token it is. Only a stop that
// cannot be predicted ends it.
bool goes_on(const JobRecord& job, const PlannedLane& planned) {
  if (job.request.kind != JobKind::generate || job.lane.num_candidates > 0 || planned.first_draw < 0)
    return false;
  const int32_t num_new = job.num_drawn_tokens() + 1;  // including the token of this step
  return num_new < job.request.max_new_tokens && job.lane.num_prompt_tokens + num_new < job.max_tokens;
}

bool is_next_token(const LaneView& view) {
  return view.demand.found_tokens == 0 && !view.demand.copies_tail && !view.demand.copies_state &&
         static_cast<int32_t>(view.tokens.size()) == view.demand.length + 1;
}

}  // namespace

bool StepPlanning::plan_after(const StepPlan& plan, StepPlan& next) {
  next.lanes.clear();
  const bool none_can_start =
      jobs_.waiting().empty() || (slots_are_full_ && changes_seen_ == jobs_.num_changes());
  if (!none_can_start || !view_jobs_after(plan)) return false;
  plan_step({sized_limits(),
             kv_.pool().num_available(),
             running_views_,
             {},
             jobs_.name_spaces().views(),
             {},
             unused_slots(),
             guide_views_},
            policy_);
  for (const Grant& grant : policy_.grants) {
    const RunningView& view = running_views_[static_cast<size_t>(grant.index)];
    JobRecord& job = *jobs_.running()[static_cast<size_t>(grant.index)];
    if (grant.max_tokens > 0 && !add_after(job.lane, view, grant.max_tokens, plan, next)) return false;
    if (grant.guide_tokens == 0) continue;
    const LaneView& guide = guide_views_[static_cast<size_t>(view.guide)];
    if (!add_after(*job.guide, guide, grant.guide_tokens, plan, next)) return false;
  }
  return !next.empty();
}

// Returns false if there are no pages for the lane.
bool StepPlanning::add_after(Lane& lane, const LaneView& view, int32_t max_tokens, const StepPlan& plan,
                             StepPlan& next) {
  const PlannedLane* const before = find_planned_lane(plan, lane);
  PlannedLane planned;
  planned.lane = &lane;
  planned.start = view.demand.length;
  const int32_t known = static_cast<int32_t>(view.tokens.size()) + view.num_pending;
  planned.max_tokens = planned.num_tokens = std::min(max_tokens, known - planned.start);
  if (before != nullptr && planned.end() > static_cast<int32_t>(view.tokens.size()))
    planned.drawn_row = before->first_draw;
  if (!kv_.preallocate_pages(*lane.sequence, planned.end()) || !kv_.plan_state_ahead(planned)) return false;
  planned.pages = kv_.pages(*lane.sequence);
  next.lanes.push_back(planned);
  return true;
}

// Returns false if a job needs something that the policy cannot predict: whole rows of logits, hidden states,
// or pages of other jobs.
bool StepPlanning::view_jobs_after(const StepPlan& plan) {
  running_views_.clear();
  guide_views_.clear();
  jobs_.name_spaces().clear_held_pages();
  for (const auto& job : jobs_.running()) {
    const JobKind kind = job->request.kind;
    if (job->suspect || kind == JobKind::score || kind == JobKind::embed) return false;
    running_views_.push_back(view_after(*job, plan));
    const RunningView& view = running_views_.back();
    const auto is_unforeseen = [&](const Lane& lane, const LaneView& of) {
      return find_planned_lane(plan, lane) == nullptr && !is_next_token(of);
    };
    if (view.runnable && is_unforeseen(job->lane, view)) return false;
    if (view.runnable && job->guide && is_unforeseen(*job->guide, guide_views_.back())) return false;
    add_held_pages(*job, view);
  }
  return true;
}

// A job that samples in this step continues with the sampled token, unless the host samples it.
RunningView StepPlanning::view_after(const JobRecord& job, const StepPlan& plan) {
  const PlannedLane* const planned = find_planned_lane(plan, job.lane);
  RunningView view = view_of(job);
  static_cast<LaneView&>(view) = view_after(job.lane, plan);
  view.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  if (job.guide) guide_views_.push_back(view_after(*job.guide, plan));
  if (view.num_pending > 0) view.runnable = view.runnable && goes_on(job, *planned);
  return view;
}

LaneView StepPlanning::view_after(const Lane& lane, const StepPlan& plan) const {
  const PlannedLane* const planned = find_planned_lane(plan, lane);
  if (planned == nullptr) return view_of(lane);
  LaneView view;
  view.tokens = lane.tokens;
  view.num_pending = lane.ends_at(planned->end()) ? 1 : 0;
  view.demand = kv_.standing(*lane.sequence);
  view.demand.length = planned->end();
  return view;
}

// Sets the wait reason of every waiting job, so that Job::explain need not wait for a step.
void StepPlanning::note_waits() {
  if (jobs_.waiting().empty()) return;
  WaitReason turn;
  turn.cause = WaitCause::turn;
  if (policy_.blocked.has_value())
    turn.in_front = jobs_.waiting()[static_cast<size_t>(policy_.blocked->waiting_idx)]->id;
  wait_reasons_.assign(jobs_.waiting().size(), turn);
  const JobId next_release = find_next_release();
  for (const BlockedJob& held : policy_.deferred) {
    wait_reasons_[static_cast<size_t>(held.waiting_idx)] = reason_of(held, next_release);
  }
  for (size_t i = 0; i < jobs_.waiting().size(); ++i) {
    if (jobs_.waiting()[i]->wait_reason == wait_reasons_[i]) continue;
    jobs_.waiting()[i]->wait_reason = wait_reasons_[i];
    jobs_.waiting()[i]->channel->set_wait_reason(wait_reasons_[i]);
  }
}

// Returns the running job that is expected to end first.
JobId StepPlanning::find_next_release() const {
  JobId next;
  int32_t least = 0;
  for (const auto& job : jobs_.running()) {
    const int32_t left = job->max_tokens - static_cast<int32_t>(job->lane.tokens.size());
    if (next.value != 0 && left >= least) continue;
    least = left;
    next = job->id;
  }
  return next;
}

WaitReason StepPlanning::reason_of(const BlockedJob& held, JobId next_release) const {
  WaitReason reason;
  reason.needed_pages = held.needed_pages;
  const JobRecord& job = *jobs_.waiting()[static_cast<size_t>(held.waiting_idx)];
  const NamespaceView& space = jobs_.name_spaces().view(job.name_space);
  switch (held.cause) {
    case BlockedJob::Cause::pages:
      reason.cause = WaitCause::pages;
      reason.available_pages = held.group < 0 ? kv_.pool().num_available()
                                              : kv_.windows()[static_cast<size_t>(held.group)].num_unused();
      reason.next_release = next_release;
      break;
    case BlockedJob::Cause::slots:
      reason.cause = WaitCause::slots;
      reason.running_jobs = static_cast<int32_t>(jobs_.running().size());
      reason.next_release = next_release;
      break;
    case BlockedJob::Cause::quota_jobs:
      reason.cause = WaitCause::quota_jobs;
      reason.running_jobs = space.max_running_jobs;
      break;
    case BlockedJob::Cause::quota_pages:
      reason.cause = WaitCause::quota_pages;
      reason.available_pages = std::max(0, space.max_pages - space.held_pages);
      break;
    case BlockedJob::Cause::shared_prefix:
      reason.cause = WaitCause::shared_prefix;
      reason.needed_pages = 0;
      break;
  }
  return reason;
}

}  // namespace quire
