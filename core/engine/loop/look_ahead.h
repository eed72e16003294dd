// Steps that follow one another without a wait between them: while a step runs, the forward pass after it is
// issued on the tokens that are going to be drawn, and what the host does between two steps takes no time of
// the device. Masks and penalties that depend on those tokens are made while that pass runs.
//
// The pass that was issued is a guess and decides nothing: the next step is planned, reserved and built as
// any other, for those of the jobs that are still there, and where it is what was issued the pass is done.
// What a wrong guess has written lies after the tokens of its sequences, on pages that these held when it was
// issued; a sequence that takes such a page over writes later, in the order of the device.
#pragma once

#include <vector>

#include "core/engine/loop/step_planning.h"
#include "core/step/executor.h"
#include "core/step/issued_step.h"

namespace quire {

// One thread at a time.
class LookAhead {
 public:
  LookAhead(Executor& executor, LiveJobs& jobs, StepPlanning& planning, KvCache& kv);

  // With a pass issued, its jobs run: a job that has come since waits for this one step. False where none is
  // left of them.
  bool resume(StepPlan& plan);
  // The pass that was issued where it is what `batch` asks for, and its places then; else a new one.
  Ticket forward(StepPlan& plan, const Batch& batch);
  // After draw: issues the pass after this one, where it can be told.
  void follow(const StepPlan& plan, const Batch& batch);
  bool has_issued() const { return issued_.is_held(); }
  // What the step has drawn.
  void settle(const Drawn& drawn) { issued_.settle(drawn.outcomes); }

 private:
  // As next_: what a lane was when it was issued.
  struct IssuedLane {
    JobId job;
    SequenceId sequence;
  };

  // Whether the lanes of one job, [first, end), are where they were issued to be.
  bool stands(size_t first, size_t end) const;

  Executor& executor_;
  LiveJobs& jobs_;
  StepPlanning& planning_;
  KvCache& kv_;
  StepPlan next_;
  std::vector<IssuedLane> lanes_;
  IssuedStep issued_;
};

}  // namespace quire
