// The draws of a step: where the logits lie, if the executor makes them there, or from a copy of the row.
#pragma once

#include <vector>

#include "core/engine/jobs/job_record.h"
#include "core/sampling/sampler.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

constexpr int32_t kMaxForcedTokens = 32;  // after one draw

// One thread at a time.
class TokenSampling {
 public:
  // `num_tokens`: logits of a row that count.
  TokenSampling(Executor& executor, int32_t num_tokens);

  // After forward: makes the masks of constrained jobs while the device computes, and asks for the draws.
  // Fills in first_draw. A job whose mask fails has its fault in its step.
  void draw(StepPlan& plan, Ticket ticket);
  // The token after the last row of a job's lane but num_after, of a guided job with that of its guide, which
  // else is null. Throws ErrorCode::numeric where a row is not finite; that nothing is allowed is told by its
  // fault.
  SampledToken sample(const PlannedLane& planned, const PlannedLane* guide, const Drawn& drawn,
                      int32_t num_after = 0);
  bool is_finite(const PlannedLane& planned, const Drawn& drawn) const;
  // Whether tokens of a job may come without a draw.
  bool may_force(const JobRecord& job) const;
  // Appends the tokens after what the step has drawn that would come whatever was drawn.
  void force(const JobRecord& job, TokenIds& out) const;
  gsl::span<const float> row(const Drawn& drawn, int32_t row) const;

 private:
  gsl::span<const float> row_before(const PlannedLane& planned, const Drawn& drawn, int32_t num_after) const {
    return row(drawn, planned.last_row() - num_after);
  }
  void plan_draw(PlannedLane& planned);
  void check(PlannedLane& planned);
  SampleRequest request_of(const JobRecord& job);
  // Valid until the next request.
  gsl::span<const TokenId> banned_for(const JobRecord& job);
  TokenMask mask_of(const JobRecord& job);
  gsl::span<uint32_t> next_mask();
  SampledToken sample_row(const SampleRequest& request);

  Executor& executor_;
  int32_t num_tokens_;
  Sampler sampler_;
  std::vector<float> guided_;  // a mixed row
  DeviceDraws draws_;
  std::vector<std::vector<uint32_t>> masks_;  // of this step; their memory is used again
  size_t num_masks_ = 0;
  TokenIds banned_;
};

}  // namespace quire
