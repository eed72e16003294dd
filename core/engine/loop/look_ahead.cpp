#include "core/engine/loop/look_ahead.h"

#include <new>

#include "core/base/error.h"
#include "core/engine/loop/batch_builder.h"

namespace quire {

LookAhead::LookAhead(Executor& executor, LiveJobs& jobs, StepPlanning& planning, KvCache& kv)
    : executor_(executor),
      jobs_(jobs),
      planning_(planning),
      kv_(kv),
      issued_(executor.limits().page_tokens) {}

bool LookAhead::resume(StepPlan& plan) {
  plan.lanes.clear();
  if (!issued_.is_held()) return false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    JobRecord* const job = jobs_.find(lanes_[i].job);
    if (job == nullptr || !stands(*job, lanes_[i], next_.lanes[i])) {
      jobs_.note_change();
    } else {
      planning_.add(*job, next_.lanes[i].num_tokens, 1, plan);
    }
  }
  if (plan.empty()) issued_.drop();
  return !plan.empty();
}

bool LookAhead::stands(const JobRecord& job, const IssuedLane& issued, const PlannedLane& planned) const {
  const Lane& lane = job.lane;
  if (lane.sequence != issued.sequence || job.suspect || !job.runnable()) return false;
  const PageDemand demand = kv_.demand(*lane.sequence, lane.tokens);
  return demand.start() == planned.start && !demand.copies_tail &&
         planned.end() <= static_cast<int32_t>(lane.tokens.size()) &&
         demand.held_pages * executor_.limits().page_tokens >= planned.end();
}

Ticket LookAhead::forward(StepPlan& plan, const Batch& batch) {
  const bool is_done = issued_.covers(batch);
  const Ticket issued = issued_.ticket();
  issued_.drop();
  if (!is_done) return executor_.forward(batch);
  for (size_t i = 0; i < plan.lanes.size(); ++i) plan.lanes[i].first_row = issued_.rows()[i];
  return issued;
}

void LookAhead::follow(const StepPlan& plan, const Batch& batch) {
  if (!executor_.limits().follows || batch.wants_hidden) return;
  try {
    if (!planning_.plan_after(plan, next_)) return;
    lanes_.clear();
    for (const PlannedLane& planned : next_.lanes)
      lanes_.push_back({planned.lane->job->id, *planned.lane->sequence});
    build_batch(next_, {}, table_shape(executor_.limits(), kv_), issued_.batch());
    issued_.issued(executor_.forward(issued_.batch()));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::device_lost) throw;
    // Whatever it is, the step will meet it in its own turn.
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace quire
