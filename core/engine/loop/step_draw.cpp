// The draws of a step: where the logits lie, if the executor makes them there, or from a copy of the row.
#include <algorithm>

#include "core/base/error.h"
#include "core/engine/loop/step_loop.h"
#include "core/sampling/device_draw.h"

namespace quire {

namespace {

const kernels::SampleOutcome* find_outcome(const DeviceDraws& draws, const Logits& logits, int32_t row) {
  const auto drawn = std::lower_bound(
      draws.rows.begin(), draws.rows.end(), row,
      [](const kernels::SampleRow& draw, int32_t wanted) { return draw.logit_row < wanted; });
  if (drawn == draws.rows.end() || drawn->logit_row != row) return nullptr;
  return &logits.outcomes[static_cast<size_t>(drawn - draws.rows.begin())];
}

}  // namespace

void StepLoop::plan_draws(const Reservation& reservation) {
  batch_.draws.clear();
  if (!limits_.makes_draws) return;
  batch_.draws.vocab_size = parts_.num_tokens;
  int32_t row = 0;
  for (size_t i = 0; i < planned_jobs_.size(); ++i) {
    const ReservedSequence& reserved = reservation.sequences()[i];
    row += reserved.num_logit_rows;
    plan_draw(*planned_jobs_[i], reserved, row - 1);
  }
}

// Scores take whole rows, and what is drawn behind a candidate depends on whether that was right. The row
// behind a chunk of a prompt is only asked whether it is finite, which any draw tells.
void StepLoop::plan_draw(const JobRecord& job, const ReservedSequence& reserved, int32_t row) {
  if (job.request.kind == JobKind::score || job.num_candidates > 0) return;
  if (job.request.kind == JobKind::generate && job.ends_at(reserved.end())) {
    add_device_draw(draw_request(job), row, limits_.max_draw_edits, batch_.draws);
  } else {
    kernels::SampleRow check;
    check.logit_row = row;
    batch_.draws.rows.push_back(check);
  }
}

// Of the token behind all that the job has and num_pending that are being drawn; the logits are not there
// yet.
SampleRequest StepLoop::draw_request(const JobRecord& job, int32_t num_pending) {
  SampleRequest request{{}, &job.sampler};
  if (job.num_drawn_tokens() + num_pending < job.request.min_new_tokens) request.banned = job.stop_tokens;
  request.want_log_prob = job.wants_log_probs();
  request.num_top_log_probs = job.request.num_top_log_probs;
  request.num_pending = num_pending;
  return request;
}

SampledToken StepLoop::sample(const JobRecord& job, const Logits& logits, int32_t row) {
  SampledToken sampled;
  if (const kernels::SampleOutcome* outcome = find_outcome(batch_.draws, logits, row)) {
    sampled = sampled_by_device(*outcome);
  } else {
    SampleRequest request = draw_request(job);
    request.logits = token_logits(logits, row);
    sampled = sampler_.sample(request);
  }
  const int32_t num_new = job.num_drawn_tokens();
  if (sampled.fault == SampleFault::non_finite) {
    throw Error(ErrorCode::numeric, "the logits for new token {} are not finite", num_new);
  }
  if (sampled.fault == SampleFault::nothing_allowed) {
    throw Error(ErrorCode::numeric, "no token is allowed as new token {}", num_new);
  }
  return sampled;
}

bool StepLoop::is_finite(const Logits& logits, int32_t row) const {
  if (const kernels::SampleOutcome* outcome = find_outcome(batch_.draws, logits, row))
    return outcome->status != kernels::SampleStatus::not_finite;
  return scan_row(token_logits(logits, row)).finite;
}

}  // namespace quire
