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
  for (size_t i = 0, end = 0; i < lanes_.size(); i = end) {
    end = i + 1;
    while (end < lanes_.size() && lanes_[end].job == lanes_[i].job) ++end;
    if (!is_as_issued(i, end)) {
      jobs_.note_change();
      continue;
    }
    for (; i < end; ++i) planning_.add(*next_.lanes[i].lane, next_.lanes[i].num_tokens, 1, plan);
  }
  if (plan.empty()) issued_.drop();
  return !plan.empty();
}

bool LookAhead::is_as_issued(size_t first, size_t end) const {
  const JobRecord* const job = jobs_.find(lanes_[first].job);
  if (job == nullptr || job->suspect || !job->runnable()) return false;
  for (size_t i = first; i < end; ++i) {
    const PlannedLane& planned = next_.lanes[i];
    const Lane& lane = *planned.lane;
    if (lane.sequence != lanes_[i].sequence || lane.num_candidates > 0) return false;
    const PageDemand demand = kv_.demand(*lane.sequence, lane.tokens);
    if (demand.start() != planned.start || demand.copies_tail || demand.copies_state ||
        planned.end() > static_cast<int32_t>(lane.tokens.size()) ||
        demand.held_pages * executor_.limits().page_tokens < planned.end())
      return false;
  }
  return true;
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
    // Any other error will occur again when the step runs in the usual way.
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace quire
