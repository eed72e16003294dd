// Sampling of a step: on the device if the executor supports it, otherwise on the host from a copy of the
// logits.
#pragma once

#include <vector>

#include "core/engine/jobs/job_record.h"
#include "core/sampling/sampler.h"
#include "core/step/executor.h"
#include "core/step/step_plan.h"

namespace quire {

constexpr int32_t kMaxForcedTokens = 32;  // maximum after one sampled token

// Not thread-safe.
class TokenSampling {
 public:
  // `num_tokens`: number of valid logits in a row.
  TokenSampling(Executor& executor, int32_t num_tokens);

  // Computes the masks of constrained jobs while the device computes, and starts the draws. Called after
  // forward. Sets first_draw. If the mask of a job fails, stores the error in its step.
  void draw(StepPlan& plan, Ticket ticket);
  // Returns the token sampled from the row that is num_after rows before the lane's last one. `guide` is the
  // second lane of a guided job, otherwise null. Throws ErrorCode::numeric if a row is not finite. If no
  // token is allowed, the result's `fault` is set.
  SampledToken sample(const PlannedLane& planned, const PlannedLane* guide, const Drawn& drawn,
                      int32_t num_after = 0);
  // Draws of a draft network, with the settings of the job and the random bits of its next token. Tokens
  // proposed so far are accepted on trial. begin_proposals is called before the draws of each pass.
  void begin_proposals() { num_masks_ = 0; }
  // Adds the draw from a logit row to `draws`. Returns false if only the host can draw.
  bool plan_proposal(const JobRecord& job, int32_t num_drafts, int32_t logit_row, int32_t max_edits,
                     DeviceDraws& draws);
  // Draws on the host. The result's `fault` is set if nothing can be drawn.
  SampledToken sample_proposal(const JobRecord& job, int32_t num_drafts, gsl::span<const float> logits);
  // Returns the number of first drafts that the job can draw one after another: up to a stop token, a banned
  // one, or one that the constraint refuses.
  int32_t count_possible(JobRecord& job, gsl::span<const TokenId> drafts);
  bool is_finite(const PlannedLane& planned, const Drawn& drawn) const;
  // True if tokens of the job may be forced by its constraint instead of sampled.
  bool may_force(const JobRecord& job) const;
  // True if the constraint forces the next token instead of a draw.
  bool forces(const JobRecord& job);
  // Appends the tokens that the constraint forces after those of this step.
  void force(const JobRecord& job, TokenIds& out) const;
  gsl::span<const float> row(const Drawn& drawn, int32_t row) const;

 private:
  gsl::span<const float> row_before(const PlannedLane& planned, const Drawn& drawn, int32_t num_after) const {
    return row(drawn, planned.last_row() - num_after);
  }
  void plan_draws(PlannedLane& planned);
  void plan_draws_of_drafts(PlannedLane& planned);
  bool may_mask_drafts(const JobRecord& job) const;
  // Returns the number of edits that draws after draft tokens may reach: the rest is for lanes without
  // drafts.
  int32_t edits_for_drafts() const { return executor_.limits().max_draw_edits / 2; }
  void check(PlannedLane& planned);
  void check_row(int32_t logit_row);
  // num_drafts: number of draft tokens that the sampler and the matcher have accepted on trial.
  SampleRequest request_of(const JobRecord& job, int32_t num_drafts = 0);
  SampleRequest proposal_of(const JobRecord& job, int32_t num_drafts);
  gsl::span<const TokenId> banned_for(const JobRecord& job, int32_t num_drafts);
  TokenMask mask_of(const JobRecord& job);
  gsl::span<uint32_t> next_mask();
  SampledToken sample_row(const SampleRequest& request);

  Executor& executor_;
  int32_t num_tokens_;
  Sampler sampler_;
  std::vector<float> guided_;  // row of logits mixed with that of the guide
  DeviceDraws draws_;
  std::vector<std::vector<uint32_t>> masks_;  // masks of this step; their memory is reused
  size_t num_masks_ = 0;
  int32_t lanes_left_ = 0;  // lanes of this step whose draws are not planned yet
  TokenIds banned_;
  TokenIds forced_;
};

}  // namespace quire
