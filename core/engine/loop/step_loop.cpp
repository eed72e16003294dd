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
      step_timing_(context(), parts_.devices, plan_),
      weight_use_(parts_.residency, queue.signal(), *parts_.executor),
      planning_(jobs_, kv(), context().policy, step_timing_),
      ahead_(*parts_.executor, jobs_, planning_, kv()),
      token_sampling_(*parts_.executor, parts_.num_tokens),
      verify_(*parts_.executor, token_sampling_),
      commit_(runtime.clock(), jobs_, kv()) {
  parts_.executor->set_breaks(&step_timing_);
  plan_.lanes.reserve(static_cast<size_t>(context().policy.max_running_lanes));
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
  const bool is_issued = ahead_.resume(plan_);
  if (!is_issued && !planning_.plan(plan_)) {
    step_timing_.rest();
    return StepOutcome::idle;
  }
  step_timing_.begin(jobs_.now(), {is_issued, weight_use_.take_reload()});
  const auto end_timing = gsl::finally([this] { step_timing_.end(); });
  contain(
      "no memory for a step", [this] { step(); },
      [this](ErrorCode code, std::string_view what) { handle_step_failure(code, what); });
  ++jobs_.metrics_store().cache().steps;
  jobs_.sweep();
  if (context().options.check_invariants) audit();
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
  Reservation reservation = kv().reserve(plan_);  // frees its pages at the end of the scope unless committed
  build_batch(plan_, reservation.copies(), table_shape(context().executor, kv()), batch_);
  batch_.state_copies.assign(reservation.state_copies().begin(), reservation.state_copies().end());
  batch_.wants_hidden = wants_hidden(plan_);
  const Ticket ticket = ahead_.forward(plan_, batch_);
  token_sampling_.draw(plan_, ticket);
  if (step_timing_.may_follow()) {
    ahead_.follow(plan_, batch_);
  } else {
    step_timing_.pass_on();
  }
  const Drawn drawn = parts_.executor->wait(ticket);
  step_timing_.end_turn(batch_.num_tokens(), batch_.num_sequences(), ahead_.has_issued());
  ahead_.settle(drawn);
  measure_step();
  verify_.verify(plan_, drawn);
  reservation.commit();
  commit_.commit(plan_);
}

void StepLoop::measure_step() noexcept {
  const double num_sequences = batch_.num_sequences();
  StepHistograms& steps = jobs_.metrics_store().steps();
  steps.sequences.observe(num_sequences);
  steps.tokens.observe(batch_.num_tokens());
  steps.batch_fill.observe(num_sequences / context().policy.max_running_lanes);
}

// Handles a step that failed as a whole. One of its jobs may have caused it, so each runs alone until the
// faulty job is found. An aborted step has no such cause: its remaining jobs continue with the next step.
// Called in the catch block: a device error is rethrown unchanged, which needs no memory.
void StepLoop::handle_step_failure(ErrorCode code, std::string_view message) {
  if (code == ErrorCode::device_lost) throw;
  if (step_timing_.was_aborted()) return;
  const int32_t num_jobs = plan_.num_jobs();
  if (num_jobs == 1) return jobs_.fail(*plan_.lanes.front().lane->job, code, message);
  for (const PlannedLane& planned : plan_.lanes) planned.lane->job->suspect = true;
  context().runtime.log()(LogLevel::warning, "a step of {} jobs failed ({}): {}", num_jobs,
                          error_code_name(code), message);
}

void StepLoop::audit() const {
  const std::string problem = kv().audit();
  if (!problem.empty()) throw Error(ErrorCode::internal, "page accounting: {}", problem);
}

}  // namespace quire
