#include "core/engine/loop/token_sampling.h"

#include <algorithm>
#include <cmath>

#include "core/base/contain.h"
#include "core/base/error.h"
#include "core/engine/loop/trial.h"
#include "core/sampling/device_draw.h"
#include "core/sampling/guidance.h"
#include "kernels/interface/draw_limits.h"

namespace quire {

namespace {

// Returns the number of draft tokens whose rows the lane computes.
int32_t num_drafts(const PlannedLane& planned) {
  return planned.lane->ends_at(planned.end()) ? planned.lane->num_candidates : 0;
}

// Returns the result of the draw that is num_after draws before the lane's last one; null if the host draws.
const kernels::SampleOutcome* outcome_of(const PlannedLane& planned, const Drawn& drawn, int32_t num_after) {
  if (planned.first_draw < 0) return nullptr;
  return &drawn.outcomes[static_cast<size_t>(planned.first_draw + num_drafts(planned) - num_after)];
}

void allow(gsl::span<uint32_t> mask, TokenId token) {
  mask[static_cast<size_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
}

// Returns the only token that a mask allows, or -1.
TokenId only_token(const TokenMask& mask) {
  TokenId only = -1;
  for (size_t i = 0; i < mask.words.size(); ++i) {
    const uint32_t word = mask.words[i];
    if (word == 0) continue;
    if (only >= 0 || (word & (word - 1)) != 0) return -1;
    only = static_cast<TokenId>(i * 32 + static_cast<size_t>(__builtin_ctz(word)));
  }
  return only;
}

bool names(gsl::span<const TokenId> tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

TokenSampling::TokenSampling(Executor& executor, int32_t num_tokens)
    : executor_(executor), num_tokens_(num_tokens), sampler_(num_tokens) {
  draws_.vocab_size = num_tokens;
  draws_.rows.reserve(static_cast<size_t>(executor.limits().max_logit_rows));
  draws_.edits.reserve(static_cast<size_t>(executor.limits().max_draw_edits));
}

void TokenSampling::draw(StepPlan& plan, Ticket ticket) {
  draws_.clear();
  num_masks_ = 0;
  lanes_left_ = static_cast<int32_t>(plan.lanes.size());
  if (executor_.limits().makes_draws) {
    for (PlannedLane& planned : plan.lanes) {
      JobRecord& job = *planned.lane->job;
      --lanes_left_;
      const bool made = contain(
          "no memory for a mask", [&] { plan_draws(planned); },
          [&](ErrorCode code, std::string_view what, std::string_view parameter) {
            job.step.fault(code, what, parameter);
          });
      if (!made) check(planned);
    }
  }
  executor_.draw(ticket, draws_);
}

// Adds the device draws of a lane, unless the host must sample: scores need whole rows, and the rows of two
// lanes are mixed on the host. The row after a prompt chunk is only checked for finite values, which any draw
// reports.
void TokenSampling::plan_draws(PlannedLane& planned) {
  JobRecord& job = *planned.lane->job;
  planned.first_draw = -1;
  planned.num_undrawn = 0;
  const Lane& lane = *planned.lane;
  if (job.request.kind == JobKind::score) return;
  if (job.request.kind != JobKind::generate || !lane.ends_at(planned.end())) return check(planned);
  if (job.guide) return;
  const auto first_draw = static_cast<int32_t>(draws_.rows.size());
  const int32_t first_row = planned.last_row() - lane.num_candidates;
  if (!add_device_draw(request_of(job), first_row, executor_.limits().max_draw_edits, draws_)) return;
  planned.first_draw = first_draw;
  if (lane.num_candidates > 0) plan_draws_of_drafts(planned);
}

// Adds the draws from the rows after draft tokens, each with the history that the drafts before it make.
// Stops at a draft after which no token can be drawn. Its row and those after it are only checked, so that no
// row is copied to the host. An error here is one of a token that may never be reached: the step that needs
// the token reports it.
void TokenSampling::plan_draws_of_drafts(PlannedLane& planned) {
  JobRecord& job = *planned.lane->job;
  const Lane& lane = *planned.lane;
  const gsl::span<const TokenId> drafts = lane.drafts();
  const int32_t first_row = planned.last_row() - lane.num_candidates;
  int32_t num_planned = 0;
  Trial trial(job);
  contain(
      "no memory for a mask",
      [&] {
        for (; num_planned < lane.num_candidates; ++num_planned) {
          const TokenId draft = drafts[static_cast<size_t>(num_planned)];
          if (names(job.stop_tokens, draft) || !may_mask_drafts(job) || !trial.accept(draft, 1.0F)) return;
          const SampleRequest request = request_of(job, num_planned + 1);
          if (!add_device_draw(request, first_row + num_planned + 1, edits_for_drafts(), draws_)) return;
        }
      },
      [](ErrorCode, std::string_view) {});
  planned.num_undrawn = lane.num_candidates - num_planned;
  for (int32_t row = num_planned; row < lane.num_candidates; ++row) check_row(first_row + row + 1);
}

// True if another mask fits into the step beside those of the lanes that are not planned yet.
bool TokenSampling::may_mask_drafts(const JobRecord& job) const {
  if (job.matcher == nullptr) return true;
  const ExecutorLimits& limits = executor_.limits();
  const int32_t most = kernels::max_draw_masks(limits.max_logit_rows, limits.max_sequences);
  return static_cast<int32_t>(num_masks_) + lanes_left_ < most;
}

void TokenSampling::check_row(int32_t logit_row) {
  kernels::SampleRow row;
  row.logit_row = logit_row;
  draws_.rows.push_back(row);
}

void TokenSampling::check(PlannedLane& planned) {
  planned.first_draw = static_cast<int32_t>(draws_.rows.size());
  planned.num_undrawn = num_drafts(planned);
  for (int32_t row = planned.last_row() - planned.num_undrawn; row <= planned.last_row(); ++row)
    check_row(row);
}

// Builds the sampling request for the next token, before its logits exist.
SampleRequest TokenSampling::request_of(const JobRecord& job, int32_t num_drafts) {
  SampleRequest request{{}, &job.sampler};
  request.mask = mask_of(job);
  request.banned = banned_for(job, num_drafts);
  request.want_log_prob = job.wants_log_probs();
  request.num_top_log_probs = job.request.num_top_log_probs;
  return request;
}

gsl::span<const TokenId> TokenSampling::banned_for(const JobRecord& job, int32_t num_drafts) {
  const int32_t place = job.num_drawn_tokens() + num_drafts;
  gsl::span<const TokenId> stops;
  if (place < job.request.min_new_tokens) stops = job.stop_tokens;
  const bool is_first = place == 0 && !job.first_banned_tokens.empty();
  if (job.exclusions.empty() && !is_first) return stops;
  banned_.assign(stops.begin(), stops.end());
  if (is_first) banned_.insert(banned_.end(), job.first_banned_tokens.begin(), job.first_banned_tokens.end());
  job.exclusions.append_of(place, banned_);
  return banned_;
}

TokenMask TokenSampling::mask_of(const JobRecord& job) {
  if (job.matcher == nullptr || job.matcher->allows_all()) return {};
  const gsl::span<uint32_t> mask = next_mask();
  with_parameter("constraint", [&] { job.matcher->mask(mask); });
  if (job.matcher->may_end()) {
    for (const TokenId token : job.stop_tokens) allow(mask, token);
  }
  return {mask};
}

gsl::span<uint32_t> TokenSampling::next_mask() {
  if (num_masks_ == masks_.size()) masks_.emplace_back((static_cast<size_t>(num_tokens_) + 31) / 32);
  return masks_[num_masks_++];
}

gsl::span<const float> TokenSampling::row(const Drawn& drawn, int32_t row) const {
  return drawn.row(row).first(static_cast<size_t>(num_tokens_));
}

SampledToken TokenSampling::sample(const PlannedLane& planned, const PlannedLane* guide, const Drawn& drawn,
                                   int32_t num_after) {
  const JobRecord& job = *planned.lane->job;
  SampledToken sampled;
  if (const kernels::SampleOutcome* outcome = outcome_of(planned, drawn, num_after)) {
    sampled = sampled_by_device(*outcome);
  } else {
    SampleRequest request = request_of(job);
    request.logits = row_before(planned, drawn, num_after);
    if (guide != nullptr) {
      mix_guided(request.logits, row_before(*guide, drawn, num_after), job.request.guidance_scale, guided_);
      request.logits = guided_;
    }
    sampled = sample_row(request);
  }
  if (sampled.fault == SampleFault::non_finite) {
    throw Error(ErrorCode::numeric, "the logits for new token {} are not finite", job.num_drawn_tokens());
  }
  return sampled;
}

// Samples a token. If the mask allows only one, returns it without sampling.
SampledToken TokenSampling::sample_row(const SampleRequest& request) {
  const TokenId only = only_token(request.mask);
  const bool is_forced = only >= 0 && only < num_tokens_ && !request.want_log_prob &&
                         request.num_top_log_probs == 0 && !names(request.banned, only) &&
                         !names(request.state->settings().banned_tokens, only) &&
                         std::isfinite(request.logits[static_cast<size_t>(only)]);
  if (!is_forced) return sampler_.sample(request);
  SampledToken sampled;
  sampled.token = only;
  sampled.probability = 1.0F;
  if (!scan_row(request.logits).finite) sampled.fault = SampleFault::non_finite;
  return sampled;
}

// Tokens are sampled one by one if something besides the constraint influences them, or if their
// probabilities are requested.
bool TokenSampling::may_force(const JobRecord& job) const {
  if (job.matcher == nullptr || !job.matcher->forces()) return false;
  const SamplingSettings& settings = job.sampler.settings();
  return !job.wants_log_probs() && job.request.banned_strings.empty() && settings.logit_bias.empty() &&
         settings.banned_tokens.empty();
}

bool TokenSampling::forces(const JobRecord& job) {
  forced_.clear();
  if (may_force(job)) force(job, forced_);
  return !forced_.empty();
}

void TokenSampling::force(const JobRecord& job, TokenIds& out) const {
  const size_t num_before = out.size();
  with_parameter("constraint", [&] { job.matcher->force(kMaxForcedTokens, out); });
  const auto is_drawn = [&](TokenId token) { return token >= num_tokens_ || names(job.stop_tokens, token); };
  const auto first = out.begin() + static_cast<ptrdiff_t>(num_before);
  out.erase(std::find_if(first, out.end(), is_drawn), out.end());
}

int32_t TokenSampling::count_possible(JobRecord& job, gsl::span<const TokenId> drafts) {
  int32_t count = 0;
  Trial trial(job);
  const auto is_possible = [&](TokenId draft) {
    return draft >= 0 && draft < num_tokens_ && !names(job.stop_tokens, draft) &&
           !names(job.sampler.settings().banned_tokens, draft) && !names(banned_for(job, count), draft) &&
           trial.accept(draft, 1.0F);
  };
  contain(
      "no memory for drafts",
      [&] {
        while (count < static_cast<int32_t>(drafts.size()) && is_possible(drafts[static_cast<size_t>(count)]))
          ++count;
      },
      [](ErrorCode, std::string_view) {});
  return count;
}

bool TokenSampling::plan_proposal(const JobRecord& job, int32_t num_drafts, int32_t logit_row,
                                  int32_t max_edits, DeviceDraws& draws) {
  if (job.guide) return false;
  const ExecutorLimits& limits = executor_.limits();
  const bool may_mask =
      job.matcher == nullptr ||
      static_cast<int32_t>(num_masks_) < kernels::max_draw_masks(limits.max_sequences, limits.max_sequences);
  return may_mask && add_device_draw(proposal_of(job, num_drafts), logit_row, max_edits, draws);
}

SampledToken TokenSampling::sample_proposal(const JobRecord& job, int32_t num_drafts,
                                            gsl::span<const float> logits) {
  SampleRequest request = proposal_of(job, num_drafts);
  request.logits = logits;
  return sample_row(request);
}

SampleRequest TokenSampling::proposal_of(const JobRecord& job, int32_t num_drafts) {
  SampleRequest request = request_of(job, num_drafts);
  request.want_log_prob = false;
  request.num_top_log_probs = 0;
  return request;
}

bool TokenSampling::is_finite(const PlannedLane& planned, const Drawn& drawn) const {
  if (const kernels::SampleOutcome* outcome = outcome_of(planned, drawn, 0))
    return outcome->status != kernels::SampleStatus::not_finite;
  return scan_row(row(drawn, planned.last_row())).finite;
}

}  // namespace quire
