// Asynchronous steps: while a step runs, the next forward pass is issued on the tokens that the step will
// sample. So the device does not wait for the host's work between two steps. Masks and penalties that depend
// on those tokens are computed while that pass runs.
//
// The issued pass is a guess and decides nothing. The next step is planned, reserved and built like any
// other, for the jobs that are still there. If its batch equals the issued one, its pass is already done. A
// wrong guess has written only after the tokens of its sequences, on pages that they had when it was issued.
// A sequence that gets such a page later also writes to it later, in the order of the device.
#pragma once

#include <vector>

#include "core/engine/loop/step_planning.h"
#include "core/step/executor.h"
#include "core/step/issued_step.h"

namespace quire {

// Not thread-safe.
class LookAhead {
 public:
  LookAhead(Executor& executor, LiveJobs& jobs, StepPlanning& planning, KvCache& kv);

  // Plans a step of the jobs of the issued pass, if there is one; jobs that came since wait for this one
  // step. Returns false if none of those jobs is left.
  bool resume(StepPlan& plan);
  // Returns the issued pass and sets the rows of `plan`, if it computes `batch`. Otherwise starts a new pass.
  Ticket forward(StepPlan& plan, const Batch& batch);
  // Issues the pass after this one, if it can be predicted. Called after sampling was started.
  void follow(const StepPlan& plan, const Batch& batch);
  bool has_issued() const { return issued_.is_held(); }
  // Passes the sampled tokens of the step to the issued pass.
  void settle(const Drawn& drawn) { issued_.settle(drawn.outcomes); }

 private:
  // State of a lane when its pass was issued; same order as in next_.
  struct IssuedLane {
    JobId job;
    SequenceId sequence;
  };

  // True if the lanes of one job, [first, end), are in the state that was assumed when they were issued.
  bool is_as_issued(size_t first, size_t end) const;

  Executor& executor_;
  LiveJobs& jobs_;
  StepPlanning& planning_;
  KvCache& kv_;
  StepPlan next_;
  std::vector<IssuedLane> lanes_;
  IssuedStep issued_;
};

}  // namespace quire
