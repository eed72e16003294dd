#include "core/engine/loop/step_timing.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace quire {
namespace {

// Interval at which a step that waits for its turn checks whether it is still needed.
constexpr Duration kTurnCheckInterval = std::chrono::milliseconds(20);

SizingOptions sizing_options(const EngineContext& context) {
  SizingOptions sizing;
  sizing.stretch = context.options.step_stretch;
  sizing.max_tokens = context.policy.max_step_tokens;
  return sizing;
}

TurnUrgency urgency_of(const LiveJobs& jobs) {
  TurnUrgency urgency;
  bool any = false;
  const auto add = [&](const JobRecord& job, int32_t priority) {
    if (!job.runnable()) return;
    urgency.priority = any ? std::max(urgency.priority, priority) : priority;
    urgency.deadline = std::min(urgency.deadline, job.deadline());
    any = true;
  };
  for (const auto& job : jobs.running()) add(*job, job->request.priority);
  for (const auto& job : jobs.waiting()) add(*job, job->request.priority);
  return urgency;
}

}  // namespace

StepTiming::StepTiming(const EngineContext& context, const std::vector<std::string>& devices,
                       const StepPlan& plan)
    : context_(context),
      plan_(plan),
      device_turn_(context.runtime.turns(), devices, context.options.device_weight, context.queue.signal()),
      watch_(context.policy.max_step_tokens),
      sizing_(sizing_options(context)) {}

bool StepTiming::may_begin(const LiveJobs& jobs) noexcept {
  if (jobs.empty()) {
    device_turn_.leave();
    return false;
  }
  urgency_ = urgency_of(jobs);
  return device_turn_.ask(urgency_);
}

void StepTiming::begin(TimePoint now, const StepStart& start) noexcept {
  was_aborted_ = turn_continues_ = false;
  start_ = start;
  began_ = now;
  breaks_.num_reached = 0;
  watch_.begin(now);
}

bool StepTiming::may_follow() noexcept {
  breaks_.may_pause = start_.waits_for_weights || !device_turn_.would_be_next();
  return !breaks_.may_pause;
}

// A device that computes within the call has finished by now, except for sampling.
void StepTiming::pass_on() noexcept {
  if (context_.executor.follows) device_turn_.pass_on();
}

// Measures the step. For a step that was issued ahead, the device began at the earliest with the end of the
// step before; the exact time is unknown. If an issued pass was discarded, the turn began before this step. A
// step that waited for weights is not measured.
void StepTiming::end_turn(int32_t num_tokens, int32_t num_sequences, bool is_next_issued) noexcept {
  turn_continues_ = is_next_issued;
  if (turn_continues_) {
    device_turn_.continue_turn();
  } else {
    device_turn_.end();
  }
  const TimePoint now = context_.runtime.clock().now();
  const TimePoint before = std::exchange(rhythm_.last_computed, now);
  const bool is_measured = rhythm_.goes_on && !start_.waits_for_weights && !device_turn_.neighbours().any;
  rhythm_.period = is_measured ? std::optional(now - before) : std::nullopt;
  rhythm_.goes_on = true;
  if (start_.waits_for_weights) return;
  const Duration took = start_.is_issued ? now - before : std::min(device_turn_.last_turn(), now - began_);
  sizing_.observe(num_tokens, num_sequences, took);
  if (!start_.is_issued) watch_.observe(num_tokens, took);
}

void StepTiming::end() noexcept {
  if (!turn_continues_) device_turn_.end();
  breaks_.may_pause = true;
  watch_.end();
}

bool StepTiming::is_obsolete() const noexcept {
  if (context_.queue.shut()) return true;
  int64_t wanted = 0;
  int64_t unwanted = 0;
  for (const PlannedLane& planned : plan_.lanes)
    (planned.lane->job->channel->cancel_requested ? unwanted : wanted) += planned.num_tokens;
  return unwanted > wanted;
}

bool StepTiming::is_due(bool computes_within_call) {
  if (computes_within_call) return true;
  if (!breaks_.may_pause) return false;
  if (breaks_.num_reached == 0) size_pieces();
  return ++breaks_.num_reached % breaks_.num_per_piece == 0 && device_turn_.neighbours().any;
}

void StepTiming::size_pieces() noexcept {
  int32_t num_tokens = 0;
  for (const PlannedLane& planned : plan_.lanes) num_tokens += planned.num_tokens;
  breaks_.num_per_piece = sizing_.breaks_of_a_piece(num_tokens, context_.executor.num_breaks);
}

void StepTiming::pause_or_cancel() {
  if (context_.options.start_thread && !device_turn_.may_continue()) wait_for_turn();
  was_aborted_ = is_obsolete();
  if (was_aborted_) throw Error(ErrorCode::cancelled, "the step was aborted");
}

// The watchdog does not count the turns of other caches.
void StepTiming::wait_for_turn() {
  const Clock& clock = context_.runtime.clock();
  watch_.end();
  while (!device_turn_.holds() && !is_obsolete()) {
    context_.queue.signal()->wait(
        clock, std::min(device_turn_.next_request_time(), clock.now() + kTurnCheckInterval));
    device_turn_.ask(urgency_);
  }
  watch_.begin(clock.now());
}

int32_t StepTiming::step_tokens(int32_t num_streams, int32_t num_prompts) noexcept {
  const TurnNeighbours neighbours = device_turn_.neighbours();
  StepDemand demand;
  demand.num_streams = num_streams;
  demand.num_prompts = num_prompts;
  demand.num_breaks = breaks_.may_pause ? context_.executor.num_breaks : 0;
  demand.has_neighbours = neighbours.any;
  demand.neighbours_turn = neighbours.shortest_turn;
  return sizing_.tokens(demand);
}

}  // namespace quire
