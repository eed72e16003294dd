// When the steps of a cache come, how large they are and how long they take: its turns on its devices, what
// is learnt from them, and whether a step that is under way is still wanted.
#pragma once

#include <string>
#include <vector>

#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/step_watch.h"
#include "core/engine/scheduler/step_sizing.h"
#include "core/engine/turns/turn_arbiter.h"
#include "core/step/step_breaks.h"
#include "core/step/step_plan.h"

namespace quire {

// How a step begins.
struct StepStart {
  bool is_issued = false;          // while the one before it ran
  bool waits_for_weights = false;  // their copies may be under way
};

// One thread at a time, but for what says otherwise.
class StepTiming final : public StepBreaks {
 public:
  // `plan` is that of the step under way; it outlives this.
  StepTiming(const EngineContext& context, const std::vector<std::string>& devices, const StepPlan& plan);

  // Whether a step may begin. Where another cache is to compute first the engine's signal tells when.
  bool may_begin(const LiveJobs& jobs) noexcept;
  // There was nothing to compute.
  void rest() noexcept { device_turn_.leave(); }
  void begin(TimePoint now, const StepStart& start) noexcept;
  // Whether the pass after the one under way may be issued within this turn: the next turn is this cache's,
  // and the device does not wait for weights, while others could compute.
  bool may_follow() noexcept;
  // It is not, and all of this turn is issued: the next cache issues while the device still computes.
  void pass_on() noexcept;
  // The device has computed the step, one of so many tokens and jobs. The turn is over, but where the next
  // pass was issued already.
  void end_turn(int32_t num_tokens, int32_t num_sequences, bool is_next_issued) noexcept;
  // The step is over, however it ended.
  void end() noexcept;
  // Between two blocks of it. A device that computes on its own pauses after some milliseconds, where others
  // want it too.
  bool is_due(bool computes_within_call) override;
  void take_break() override;
  // Whether the step was given up: its jobs are gone, or the cache closes.
  bool gave_up() const { return gave_up_; }

  // Tokens of the next step where so many jobs generate, and so many wait for their first token.
  int32_t step_tokens(int32_t num_streams, int32_t num_prompts) noexcept;
  TimePoint ask_again() const noexcept { return device_turn_.ask_again(); }

  // Any thread.
  const StepWatch& watch() const { return watch_; }
  DeviceTurn& device_turn() { return device_turn_; }
  const DeviceTurn& device_turn() const { return device_turn_; }

 private:
  bool is_unwanted() const noexcept;
  void size_pieces() noexcept;
  void wait_for_turn();

  const EngineContext& context_;
  const StepPlan& plan_;
  DeviceTurn device_turn_;
  StepWatch watch_;
  StepSizing sizing_;
  TurnUrgency urgency_;
  bool gave_up_ = false;
  bool goes_on_ = false;   // the turn, with the pass that was issued
  bool may_pause_ = true;  // not while a pass is issued ahead: the one before is to be waited for
  int32_t breaks_of_a_piece_ = 1;
  int32_t num_breaks_ = 0;   // that the step has come to
  StepStart start_;          // of the step under way
  TimePoint began_;          // that
  TimePoint last_computed_;  // when the device was done with the step before
};

}  // namespace quire
