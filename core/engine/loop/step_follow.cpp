// Steps that follow one another without a wait between them: while a step runs, the next one is issued on the
// tokens that it is going to draw, where all jobs just go on. What the host does between two steps takes no
// time of the device then.
//
// The step that was issued is a guess and decides nothing: the next step is planned, reserved and built as
// any other, for those of the jobs that are still there; the executor compares it with the guess, and where
// the two differ computes it. What a wrong guess has written lies behind the tokens of its sequences, on
// pages that these held when it was issued; whoever takes such a page over writes behind it, in the order of
// the device.
#include <algorithm>

#include "core/base/error.h"
#include "core/engine/loop/step_loop.h"
#include "core/sampling/device_draw.h"
#include "core/step/following_step.h"

namespace quire {

// With a step issued ahead, its jobs run: who has come since waits for this one. False where nobody is left.
bool StepLoop::plan_following() {
  for (const JobId id : following_jobs_) {
    JobRecord* const job = find(id);
    if (job == nullptr || !job->sequence || job->suspect) continue;
    const RunningView view = view_running(*job);
    const bool just_goes_on = view.runnable && !view.demand.copies_tail &&
                              pages_needed(view.demand, 1, view.reserve_tokens, limits_.page_tokens) == 0;
    if (just_goes_on) plan_job(*job, 1, 1);
  }
  following_jobs_.clear();
  return !plan_.empty();
}

// Behind forward: issues the step behind this one, where it can be told.
void StepLoop::follow(const Reservation& reservation) {
  if (!limits_.follows || !queue_is_settled_ || !all_take_part()) return;
  try {
    next_.draws.clear();
    for (size_t i = 0; i < planned_jobs_.size(); ++i) {
      if (!goes_on(*planned_jobs_[i], reservation.sequences()[i])) return;
      // It brings no edits: they may depend on the token in front.
      if (!add_device_draw(draw_request(*planned_jobs_[i], 1), static_cast<int32_t>(i), 0, next_.draws))
        return;
    }
    continue_batch(batch_, next_);
    following_jobs_.reserve(planned_jobs_.size());
    if (!executor_.forward_next(next_)) return;
    for (const JobRecord* job : planned_jobs_) following_jobs_.push_back(job->id);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    // Whatever it is, the step will meet it in its own turn.
  } catch (const std::bad_alloc&) {
  }
}

// Nobody who could run sits this step out.
bool StepLoop::all_take_part() const {
  const auto runs = [](const auto& job) { return job->runnable(); };
  return static_cast<size_t>(std::count_if(running_.begin(), running_.end(), runs)) == planned_jobs_.size();
}

// Whether a job takes its next token on the page where it is, whatever token that is; only a stop that cannot
// be foreseen ends it.
bool StepLoop::goes_on(const JobRecord& job, const ReservedSequence& reserved) const {
  if (job.request.kind != JobKind::generate || job.num_candidates > 0 || job.suspect) return false;
  if (!job.ends_at(reserved.end()) || reserved.end() % limits_.page_tokens == 0) return false;
  const int32_t num_behind = job.num_drawn_tokens() + 1;  // new tokens, once this step has drawn
  return num_behind < job.request.max_new_tokens && job.num_prompt_tokens + num_behind < job.max_tokens;
}

}  // namespace quire
