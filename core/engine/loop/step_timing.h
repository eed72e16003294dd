// Timing of an engine's steps: turns on shared devices, measured times, sizes of steps, and aborting a step
// that is no longer needed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/step_watch.h"
#include "core/engine/scheduler/step_sizing.h"
#include "core/engine/turns/turn_arbiter.h"
#include "core/step/step_breaks.h"
#include "core/step/step_plan.h"

namespace quire {

// Conditions at the start of a step.
struct StepStart {
  bool is_issued = false;          // its pass was issued while the step before it ran
  bool waits_for_weights = false;  // copies of the weights may be in progress
};

// Not thread-safe, except where noted.
class StepTiming final : public StepBreaks {
 public:
  // `plan` is that of the running step and must outlive this.
  StepTiming(const EngineContext& context, const std::vector<std::string>& devices, const StepPlan& plan);

  // True if a step may begin. If another cache must compute first, the engine's signal is notified later.
  bool may_begin(const LiveJobs& jobs) noexcept;
  // Withdraws the request for a device turn; called if there is nothing to compute.
  void rest() noexcept {
    rhythm_.goes_on = false;
    device_turn_.leave();
  }
  void begin(TimePoint now, const StepStart& start) noexcept;
  // True if the next pass may be issued within this turn: the next turn is this cache's as well, and the
  // device does not wait for weights while others could compute.
  bool may_follow() noexcept;
  // Lets the next cache issue work while the device still computes. Called if may_follow is false, once all
  // work of this turn is issued.
  void pass_on() noexcept;
  // Called when the device has computed the step, with its numbers of tokens and jobs. Ends the turn unless
  // the next pass was already issued.
  void end_turn(int32_t num_tokens, int32_t num_sequences, bool is_next_issued) noexcept;
  // Called at the end of the step, whether it succeeded or failed.
  void end() noexcept;
  // Called between two blocks. A device that computes asynchronously pauses after some milliseconds if other
  // caches need it.
  bool is_due(bool computes_within_call) override;
  void pause_or_cancel() override;
  // Returns the time between the ends of the last two steps on the device; none if the second did not follow
  // at once, or if other caches compute on the device.
  std::optional<Duration> period() const { return rhythm_.period; }
  // True if the pass of the running step was issued ahead.
  bool is_issued() const { return start_.is_issued; }
  // True if the step was aborted: its jobs are gone, or the engine closes.
  bool was_aborted() const { return was_aborted_; }

  // Returns the tokens of the next step for num_streams generating jobs and num_prompts jobs without a first
  // token.
  int32_t step_tokens(int32_t num_streams, int32_t num_prompts) noexcept;
  TimePoint next_request_time() const noexcept { return device_turn_.next_request_time(); }

  // Thread-safe.
  const StepWatch& watch() const { return watch_; }
  DeviceTurn& device_turn() { return device_turn_; }
  const DeviceTurn& device_turn() const { return device_turn_; }

 private:
  bool is_obsolete() const noexcept;
  void size_pieces() noexcept;
  void wait_for_turn();

  const EngineContext& context_;
  const StepPlan& plan_;
  DeviceTurn device_turn_;
  StepWatch watch_;
  StepSizing sizing_;
  TurnUrgency urgency_;
  bool was_aborted_ = false;
  bool turn_continues_ = false;  // the turn continues with the issued pass
  // Breaks of the running step, at which it may let another cache go first.
  struct Breaks {
    bool may_pause = true;  // false while a pass is issued ahead, because the one before must be waited for
    int32_t num_per_piece = 1;
    int32_t num_reached = 0;
  };
  Breaks breaks_;
  StepStart start_;  // of the running step
  TimePoint began_;  // start of the running step
  // Rhythm of the steps.
  struct Rhythm {
    TimePoint last_computed;  // when the device finished the previous step
    bool goes_on = false;     // no pause since the previous step
    std::optional<Duration> period;
  };
  Rhythm rhythm_;
};

}  // namespace quire
