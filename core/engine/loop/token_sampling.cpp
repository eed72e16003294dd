#include "core/engine/loop/token_sampling.h"

#include <algorithm>
#include <cmath>

#include "core/base/contain.h"
#include "core/base/error.h"
#include "core/sampling/device_draw.h"
#include "core/sampling/guidance.h"

namespace quire {

namespace {

const kernels::SampleOutcome* outcome_of(const PlannedLane& planned, const Drawn& drawn) {
  if (planned.first_draw < 0) return nullptr;
  return &drawn.outcomes[static_cast<size_t>(planned.first_draw)];
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
  draws_.rows.reserve(static_cast<size_t>(executor.limits().max_sequences));
  draws_.edits.reserve(static_cast<size_t>(executor.limits().max_draw_edits));
}

void TokenSampling::draw(StepPlan& plan, Ticket ticket) {
  draws_.clear();
  num_masks_ = 0;
  if (executor_.limits().makes_draws) {
    for (PlannedLane& planned : plan.lanes) {
      JobRecord& job = *planned.lane->job;
      const bool made = contain(
          "no memory for a mask", [&] { plan_draw(planned); },
          [&](ErrorCode code, std::string_view what, std::string_view parameter) {
            job.step.fault(code, what, parameter);
          });
      if (!made) check(planned);
    }
  }
  executor_.draw(ticket, draws_);
}

// Adds the device draw of a lane, unless the host must sample: scores need whole rows, tokens after a
// candidate depend on whether it was right, and the rows of two lanes are mixed on the host. The row after a
// prompt chunk is only checked for finite values, which any draw reports.
void TokenSampling::plan_draw(PlannedLane& planned) {
  const JobRecord& job = *planned.lane->job;
  planned.first_draw = -1;
  const Lane& lane = *planned.lane;
  if (job.request.kind == JobKind::score) return;
  if (job.request.kind != JobKind::generate || !lane.ends_at(planned.end())) return check(planned);
  if (lane.num_candidates > 0 || job.guide) return;
  const SampleRequest request = request_of(job);
  if (add_device_draw(request, planned.last_row(), executor_.limits().max_draw_edits, draws_))
    planned.first_draw = static_cast<int32_t>(draws_.rows.size()) - 1;
}

void TokenSampling::check(PlannedLane& planned) {
  kernels::SampleRow row;
  row.logit_row = planned.last_row();
  draws_.rows.push_back(row);
  planned.first_draw = static_cast<int32_t>(draws_.rows.size()) - 1;
}

// Builds the sampling request for the next token, before its logits exist.
SampleRequest TokenSampling::request_of(const JobRecord& job) {
  SampleRequest request{{}, &job.sampler};
  request.mask = mask_of(job);
  request.banned = banned_for(job);
  request.want_log_prob = job.wants_log_probs();
  request.num_top_log_probs = job.request.num_top_log_probs;
  return request;
}

gsl::span<const TokenId> TokenSampling::banned_for(const JobRecord& job) {
  gsl::span<const TokenId> stops;
  if (job.num_drawn_tokens() < job.request.min_new_tokens) stops = job.stop_tokens;
  const bool is_first = job.num_drawn_tokens() == 0 && !job.first_banned_tokens.empty();
  if (job.exclusions.empty() && !is_first) return stops;
  banned_.assign(stops.begin(), stops.end());
  if (is_first) banned_.insert(banned_.end(), job.first_banned_tokens.begin(), job.first_banned_tokens.end());
  job.exclusions.append_of(job.num_drawn_tokens(), banned_);
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
  if (const kernels::SampleOutcome* outcome = outcome_of(planned, drawn)) {
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

void TokenSampling::force(const JobRecord& job, TokenIds& out) const {
  const size_t num_before = out.size();
  with_parameter("constraint", [&] { job.matcher->force(kMaxForcedTokens, out); });
  const auto is_drawn = [&](TokenId token) { return token >= num_tokens_ || names(job.stop_tokens, token); };
  const auto first = out.begin() + static_cast<ptrdiff_t>(num_before);
  out.erase(std::find_if(first, out.end(), is_drawn), out.end());
}

bool TokenSampling::is_finite(const PlannedLane& planned, const Drawn& drawn) const {
  if (const kernels::SampleOutcome* outcome = outcome_of(planned, drawn))
    return outcome->status != kernels::SampleStatus::not_finite;
  return scan_row(row(drawn, planned.last_row())).finite;
}

}  // namespace quire
