#include "core/engine/loop/step_loop.h"

#include <algorithm>
#include <utility>

#include <gsl/gsl>

#include "core/base/contain.h"
#include "core/base/error.h"
#include "core/engine/loop/batch_builder.h"
#include "core/engine/scheduler/policy_limits.h"

namespace quire {

namespace {

EngineContext engine_context(const Runtime& runtime, const EngineParts& parts, const EngineOptions& options,
                             JobQueue& queue, EnginePages& pages) {
  const ExecutorLimits limits = parts.executor->limits();
  return {runtime, options, limits, policy_limits(limits, options), parts.num_tokens, queue, pages};
}

bool wants_hidden(const StepPlan& plan) {
  return std::any_of(plan.lanes.begin(), plan.lanes.end(), [](const PlannedLane& planned) {
    return planned.lane->job->request.kind == JobKind::embed;
  });
}

}  // namespace

StepLoop::StepLoop(Runtime& runtime, EngineParts parts, const EngineOptions& options, JobQueue& queue)
    : parts_(std::move(parts)),
      pages_(runtime, parts_, options),
      jobs_(engine_context(runtime, parts_, options, queue, pages_)),
      step_timing_(context(), parts_.devices, step_.plan),
      weight_use_(parts_.residency, queue.signal(), *parts_.executor),
      planning_(jobs_, kv(), context().policy, step_timing_),
      ahead_(*parts_.executor, jobs_, planning_, kv()),
      token_sampling_(*parts_.executor, parts_.num_tokens),
      drafting_(jobs_, token_sampling_, *parts_.executor, parts_.num_tokens),
      verify_(*parts_.executor, token_sampling_),
      commit_(runtime.clock(), jobs_, kv()) {
  parts_.executor->set_breaks(&step_timing_);
  step_.plan.lanes.reserve(static_cast<size_t>(context().policy.max_running_lanes));
}

StepLoop::~StepLoop() = default;

StepOutcome StepLoop::run_once() {
  const auto tell = gsl::finally([this] {
    jobs_.pending_wakeups().flush();
    pages_.flush();
  });
  jobs_.read_clock();
  if (pages_.free_idle_pages(jobs_.now())) jobs_.sweep();
  if (!weight_use_.can_compute(jobs_)) {
    step_timing_.rest();
    return StepOutcome::idle;
  }
  if (!step_timing_.may_begin(jobs_)) return StepOutcome::idle;
  jobs_.reload_prefixes();
  const bool is_issued = ahead_.resume(step_.plan);
  if (!is_issued) drafting_.propose();
  if (!is_issued && !planning_.plan(step_.plan)) {
    step_timing_.rest();
    return StepOutcome::idle;
  }
  step_timing_.begin(jobs_.now(), {is_issued, weight_use_.take_reload()});
  const auto end_timing = gsl::finally([this] { step_timing_.end(); });
  contain(
      "no memory for a step", [this] { step(); },
      [this](ErrorCode code, std::string_view what) { handle_step_failure(code, what); });
  CacheStats& stats = jobs_.metrics_store().cache();
  ++stats.steps;
  stats.card_experts = parts_.executor->expert_use();
  jobs_.sweep();
  if (context().options.check_invariants) audit();
  pages_.poison_freed();
  return StepOutcome::advanced;
}

uint64_t StepLoop::reclaim(std::string_view device, uint64_t bytes) {
  const auto pending_wakeups = gsl::finally([this] {
    jobs_.sweep();
    pages_.flush();
  });
  return pages_.give(device, bytes);
}

void StepLoop::step() {
  pages_.poison_freed();
  Reservation reservation =
      kv().reserve(step_.plan);  // frees its pages at the end of the scope unless committed
  pages_.poison_begun(step_.plan, reservation.state_copies());
  build_batch(step_.plan, reservation.copies(), table_shape(context().executor, kv()), step_.batch);
  step_.batch.state_copies.assign(reservation.state_copies().begin(), reservation.state_copies().end());
  step_.batch.wants_hidden = wants_hidden(step_.plan);
  const Ticket ticket = ahead_.forward(step_.plan, step_.batch);
  token_sampling_.draw(step_.plan, ticket);
  if (step_timing_.may_follow()) {
    if (!drafting_.holds_back()) ahead_.follow(step_.plan, step_.batch);
  } else {
    step_timing_.pass_on();
  }
  const Drawn drawn = parts_.executor->wait(ticket);
  const bool is_followed = ahead_.has_issued();
  const StepCount count = drafting_.count(step_.plan);
  if (!drafting_.has_network()) end_turn(count, is_followed);
  ahead_.settle(drawn);
  measure_step();
  verify_.verify(step_.plan, drawn);
  drafting_.learn(step_.plan);
  reservation.commit();
  drafting_.follow(step_.plan, step_.batch, is_followed);
  commit_.commit(step_.plan);
  drafting_.remember(step_.plan);
  drafting_.propose_by_network();
  if (drafting_.has_network()) end_turn(count, is_followed);
}

// Ends the step on the device: when the draws are there, or when the draft network has proposed tokens for
// the next step.
void StepLoop::end_turn(const StepCount& count, bool is_followed) noexcept {
  step_timing_.end_turn(step_.batch.num_tokens(), step_.batch.num_sequences(), is_followed);
  drafting_.observe(count, step_timing_.period(), step_timing_.is_issued());
}

void StepLoop::measure_step() noexcept {
  const double num_sequences = step_.batch.num_sequences();
  StepHistograms& steps = jobs_.metrics_store().steps();
  steps.sequences.observe(num_sequences);
  steps.tokens.observe(step_.batch.num_tokens());
  steps.batch_fill.observe(num_sequences / context().policy.max_running_lanes);
}

// Handles a step that failed as a whole. One of its jobs may have caused it, so each runs alone until the
// faulty job is found. An aborted step has no such cause: its remaining jobs continue with the next step.
// Called in the catch block: a device error is rethrown unchanged, which needs no memory.
void StepLoop::handle_step_failure(ErrorCode code, std::string_view message) {
  if (code == ErrorCode::device_lost) throw;
  if (step_timing_.was_aborted()) return;
  const int32_t num_jobs = step_.plan.num_jobs();
  if (num_jobs == 1) return jobs_.fail(*step_.plan.lanes.front().lane->job, code, message);
  for (const PlannedLane& planned : step_.plan.lanes) planned.lane->job->suspect = true;
  context().runtime.log()(LogLevel::warning, "a step of {} jobs failed ({}): {}", num_jobs,
                          error_code_name(code), message);
}

void StepLoop::audit() const {
  const std::string problem = kv().audit();
  if (!problem.empty()) throw Error(ErrorCode::internal, "page accounting: {}", problem);
}

}  // namespace quire
