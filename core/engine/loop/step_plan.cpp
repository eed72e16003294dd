// From jobs to the plan of a step: what the policy is shown, and how its decisions are carried out.
#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/engine/loop/step_loop.h"

namespace quire {

namespace {

// So many plans in a row may fail for want of memory before the engine gives up; a little over a second.
constexpr int32_t kMaxPlanFailures = 16;

// How long to wait before the next one: 1 ms, 2 ms, and so on to 128 ms.
Duration pause_behind_failure(int32_t num_failures) {
  return std::chrono::milliseconds(1 << std::min(num_failures - 1, 7));
}

}  // namespace

// False where nothing can run. A plan that finds no memory is tried again with the next step, or a little
// later where nothing else wakes the engine.
bool StepLoop::plan() {
  plan_.sequences.clear();
  planned_jobs_.clear();
  plan_again_ = TimePoint::max();
  if (running_.empty() && waiting_.empty()) return false;
  try {
    if (plan_following()) return true;
    for (;;) {
      view_jobs();
      const PolicyInput input{
          policy_limits_,
          kv_.pool().num_available(),
          running_views_,
          waiting_views_,
          name_spaces_.views(),
          [this](int32_t index) { return demand_of_waiting(*waiting_[static_cast<size_t>(index)]); }};
      plan_step(input, policy_);
      if (policy_.preempt.has_value()) {
        preempt(*running_[static_cast<size_t>(*policy_.preempt)]);
        continue;
      }
      // Pins give way to a job that could never run beside them.
      const bool stuck = policy_.grants.empty() && policy_.blocked.has_value() && running_.empty();
      if (!stuck || pins_.empty()) break;
      unpin(pins_.front().id);
    }
    carry_out(policy_);
    const bool places_are_taken =
        policy_.blocked.has_value() && policy_.blocked->cause == BlockedJob::Cause::slots;
    queue_is_settled_ = waiting_.empty() || places_are_taken;
    plan_failures_ = 0;
  } catch (const std::bad_alloc&) {
    move_admitted();
    plan_.sequences.clear();
    planned_jobs_.clear();
    if (++plan_failures_ > kMaxPlanFailures)
      throw Error(ErrorCode::out_of_memory, "no memory to plan a step");
    plan_again_ = now_ + pause_behind_failure(plan_failures_);
  }
  return !plan_.empty();
}

void StepLoop::view_jobs() {
  running_views_.clear();
  waiting_views_.clear();
  name_spaces_.clear_held_pages();
  for (const auto& job : running_) {
    running_views_.push_back(view_running(*job));
    note_rest(*job, !running_views_.back().runnable, now_);
    name_spaces_.add_held_pages(job->name_space, running_views_.back().demand.held_pages);
  }
  for (const auto& job : waiting_) waiting_views_.push_back(view_waiting(*job));
}

RunningView StepLoop::view_running(const JobRecord& job) const {
  RunningView view;
  view.order = job.id.value;
  view.priority = job.admitted_priority;
  view.deadline = job.deadline();
  view.runnable = job.runnable();
  view.suspect = job.suspect;
  view.wants_all_rows = job.request.kind == JobKind::score;
  view.num_candidates = job.num_candidates;
  view.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  view.tokens = job.tokens;
  view.demand = kv_.demand(*job.sequence, job.tokens);
  view.name_space = job.name_space;
  return view;
}

WaitingView StepLoop::view_waiting(const JobRecord& job) const {
  WaitingView view;
  view.order = job.id.value;
  view.priority = job.request.priority;
  view.waited = now_ - job.submitted;
  view.deadline = job.deadline();
  view.overtaken = job.overtaken;
  view.runnable = job.runnable();
  view.wants_all_rows = job.request.kind == JobKind::score;
  view.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  view.tokens = job.tokens;
  view.name_space = job.name_space;
  return view;
}

PageDemand StepLoop::demand_of_waiting(const JobRecord& job) const {
  PageDemand demand;
  if (job.request.reuse_prefix) demand = kv_.demand({job.request.name_space, 0}, job.tokens);
  demand.publishes = job.request.publish_pages;
  return demand;
}

// Its finished pages stay in the cache, so that it takes up again where it was, unless others needed the
// room.
void StepLoop::preempt(JobRecord& job) {
  const auto place =
      std::find_if(running_.begin(), running_.end(), [&](const auto& entry) { return entry.get() == &job; });
  waiting_.reserve(waiting_.size() + 1);
  drop_pages(job);
  waiting_.push_back(std::move(*place));
  running_.erase(place);
  job.channel->progress.preemptions = ++job.result.preemptions;
  book_.count(job.book_place, [](JobCounts& of) {
    --of.running_jobs;
    ++of.queued_jobs;
    ++of.preemptions;
  });
  job.channel->state = JobState::queued;
}

void StepLoop::carry_out(const PolicyOutput& policy) {
  for (const int32_t index : policy.overtaken) ++waiting_[static_cast<size_t>(index)]->overtaken;
  note_waits(policy);
  for (const Grant& grant : policy.grants) {
    JobRecord& job = *(grant.admits ? waiting_ : running_)[static_cast<size_t>(grant.index)];
    if (grant.admits) admit(job, grant);
    plan_job(job, grant.max_tokens, grant.num_logit_rows);
  }
  move_admitted();
}

void StepLoop::plan_job(JobRecord& job, int32_t max_tokens, int32_t num_logit_rows) {
  job.step.new_tokens.clear();
  job.step.new_tokens.reserve(static_cast<size_t>(job.num_candidates) + 1);
  job.step.finish = FinishReason::unfinished;
  job.step.error = ErrorCode::ok;
  job.step.message.clear();
  PlannedSequence planned;
  planned.sequence = *job.sequence;
  planned.tokens = job.tokens;
  planned.max_tokens = max_tokens;
  planned.num_candidates = job.num_candidates;
  planned.num_logit_rows = num_logit_rows;
  planned.reserve_tokens = job.request.reserve_whole ? job.max_tokens : 0;
  plan_.sequences.push_back(planned);
  planned_jobs_.push_back(&job);
}

// Times in which a running job takes no part in steps.
void StepLoop::note_rest(JobRecord& job, bool rests, TimePoint now) noexcept {
  if (rests && !job.resting_since) job.resting_since = now;
  if (rests || !job.resting_since) return;
  job.result.time_resting += now - *job.resting_since;
  job.resting_since.reset();
}

// Every waiting job knows why it waits, so that whoever asks learns it without waiting for a step.
void StepLoop::note_waits(const PolicyOutput& policy) {
  if (waiting_.empty()) return;
  WaitReason turn;
  turn.cause = WaitCause::turn;
  if (policy.blocked.has_value())
    turn.in_front = waiting_[static_cast<size_t>(policy.blocked->waiting_idx)]->id;
  wait_reasons_.assign(waiting_.size(), turn);
  const JobId next_release = find_next_release();
  for (const BlockedJob& held : policy.held_back) {
    wait_reasons_[static_cast<size_t>(held.waiting_idx)] = reason_of(held, next_release);
  }
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i]->wait_reason == wait_reasons_[i]) continue;
    waiting_[i]->wait_reason = wait_reasons_[i];
    waiting_[i]->channel->set_wait_reason(wait_reasons_[i]);
  }
}

// The running job that is expected to end first.
JobId StepLoop::find_next_release() const {
  JobId next;
  int32_t least = 0;
  for (const auto& job : running_) {
    const int32_t left = job->max_tokens - static_cast<int32_t>(job->tokens.size());
    if (next.value != 0 && left >= least) continue;
    least = left;
    next = job->id;
  }
  return next;
}

WaitReason StepLoop::reason_of(const BlockedJob& held, JobId next_release) const {
  WaitReason reason;
  reason.needed_pages = held.needed_pages;
  const JobRecord& job = *waiting_[static_cast<size_t>(held.waiting_idx)];
  const NamespaceView& space = name_spaces_.view(job.name_space);
  switch (held.cause) {
    case BlockedJob::Cause::pages:
      reason.cause = WaitCause::pages;
      reason.available_pages = kv_.pool().num_available();
      reason.next_release = next_release;
      break;
    case BlockedJob::Cause::slots:
      reason.cause = WaitCause::slots;
      reason.running_jobs = static_cast<int32_t>(running_.size());
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

// The record stays where it is until all grants, which name jobs by place, are carried out.
void StepLoop::admit(JobRecord& job, const Grant& grant) {
  admitted_.push_back(&job);
  SequenceOptions options;
  options.domain.name_space = job.request.name_space;
  options.reuse = job.request.reuse_prefix;
  options.publish = job.request.publish_pages;
  job.sequence = kv_.create(options);
  job.admitted_priority = grant.priority;
  begin(job);
}

void StepLoop::move_admitted() {
  for (JobRecord* job : admitted_) {
    if (!job->sequence) continue;
    const auto place =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) { return entry.get() == job; });
    running_.push_back(std::move(*place));  // within the capacity taken at creation
    waiting_.erase(place);
  }
  admitted_.clear();
}

}  // namespace quire
