#include "core/engine/loop/verify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/contain.h"
#include "core/base/error.h"
#include "core/engine/loop/trial.h"
#include "core/sampling/guidance.h"

namespace quire {

namespace {

// Rows of hidden states that are fetched at a time.
constexpr int32_t kRowsAtOnce = 32;

void finish_embedding(const JobRequest& request, const Pool& pool, std::vector<float>& out) {
  double scale = 1.0 / pool.num_tokens;
  if (request.normalise) {
    const double square = std::inner_product(pool.sum.begin(), pool.sum.end(), pool.sum.begin(), 0.0);
    scale = square > 0.0 ? 1.0 / std::sqrt(square) : 0.0;
  }
  std::transform(pool.sum.begin(), pool.sum.end(), out.begin(),
                 [&](double sum) { return static_cast<float>(sum * scale); });
  if (!std::all_of(out.begin(), out.end(), [](float value) { return std::isfinite(value); })) {
    throw Error(ErrorCode::numeric, "the hidden states of the prompt are not finite");
  }
}

// Returns the reason that ends a job after this token, whatever its text is.
FinishReason finish_after(const JobRecord& job, TokenId token) {
  if (std::find(job.stop_tokens.begin(), job.stop_tokens.end(), token) != job.stop_tokens.end())
    return FinishReason::stop_token;
  const int32_t num_new = job.num_drawn_tokens();
  if (num_new >= job.request.max_new_tokens) return FinishReason::max_new_tokens;
  if (job.lane.num_prompt_tokens + num_new >= job.max_tokens) return FinishReason::max_seq_len;
  return FinishReason::unfinished;
}

// Accepts a sampled token, which the mask allowed.
void accept(Trial& trial, const SampledToken& sampled) {
  if (!trial.accept(sampled.token, sampled.probability))
    throw Error(ErrorCode::internal, "the constraint rejects a token that its mask allowed");
}

// Returns the guide's lane of the same job, or null if it takes no part in this step.
PlannedLane* guide_after(StepPlan& plan, size_t index) {
  const bool has_guide =
      index + 1 < plan.lanes.size() && plan.lanes[index + 1].lane->job == plan.lanes[index].lane->job;
  return has_guide ? &plan.lanes[index + 1] : nullptr;
}

// True if all lanes of a job have reached their end, so that it samples a token.
bool draws(const PlannedLane& planned, const PlannedLane* guide) {
  const JobRecord& job = *planned.lane->job;
  if (job.request.kind != JobKind::generate || !planned.lane->ends_at(planned.end())) return false;
  return !job.guide || (guide != nullptr && guide->lane->ends_at(guide->end()));
}

}  // namespace

void Verify::verify(StepPlan& plan, const Drawn& drawn) noexcept {
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    PlannedLane& planned = plan.lanes[i];
    JobStep& step = planned.lane->job->step;
    PlannedLane* const guide = guide_after(plan, i);
    planned.num_accepted = planned.num_tokens;
    if (guide != nullptr) guide->num_accepted = guide->num_tokens;
    if (step.error == ErrorCode::ok) {
      contain(
          "no memory for the tokens of a step", [&] { verify_lanes(planned, guide, drawn); },
          [&](ErrorCode code, std::string_view what, std::string_view parameter) {
            step.fault(code, what, parameter);
          });
    }
    planned.faulted = step.error != ErrorCode::ok;
    if (guide == nullptr) continue;
    guide->faulted = planned.faulted;
    ++i;
  }
}

void Verify::verify_lanes(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn) {
  JobRecord& job = *planned.lane->job;
  if (job.request.kind == JobKind::score) {
    verify_score(planned, drawn);
  } else if (draws(planned, guide)) {
    return verify_tokens(planned, guide, drawn);
  } else {
    verify_prompt(planned, drawn);
    if (guide != nullptr) verify_prompt(*guide, drawn);
  }
  if (job.request.kind == JobKind::embed) pool_states(planned);
  const bool is_over = job.request.kind != JobKind::generate && planned.lane->ends_at(planned.end());
  if (is_over) job.step.finish = FinishReason::completed;
}

// Verifies a chunk of a prompt. A page that was found at planning may be evicted before the reservation, so
// that a lane stops before its end. The end of a lane is computed by the step that samples from it.
void Verify::verify_prompt(PlannedLane& planned, const Drawn& drawn) const {
  if (!token_sampling_.is_finite(planned, drawn))
    throw Error(ErrorCode::numeric, "the logits after token {} are not finite", planned.end());
  const Lane& lane = *planned.lane;
  if (lane.job->request.kind != JobKind::generate) return;
  const auto num_known = static_cast<int32_t>(lane.known().size());
  planned.num_accepted = std::min(planned.num_tokens, num_known - 1 - planned.start);
}

void Verify::verify_score(const PlannedLane& planned, const Drawn& drawn) {
  JobRecord& job = *planned.lane->job;
  for (int32_t i = 0; i < planned.num_tokens; ++i) {
    const auto logits = token_sampling_.row(drawn, planned.first_row + i);
    const RowScan scan = scan_row(logits);
    const auto position = static_cast<size_t>(planned.start) + static_cast<size_t>(i);
    if (!scan.finite)
      throw Error(ErrorCode::numeric, "the logits after token {} are not finite", position + 1);
    if (position + 1 == job.lane.tokens.size()) continue;
    const float logit = logits[static_cast<size_t>(job.lane.tokens[position + 1])];
    job.step.scores.push_back(static_cast<float>(logit - log_sum_exp(logits, scan.max_logit)));
  }
  if (job.request.want_raw_logits) {
    const auto vocab_size = static_cast<size_t>(drawn.vocab_size);
    job.step.raw_rows = drawn.values.subspan(static_cast<size_t>(planned.first_row) * vocab_size,
                                             static_cast<size_t>(planned.num_tokens) * vocab_size);
  }
}

// Verifies draft tokens. The row after each candidate shows whether it was right. The first wrong one is
// replaced by the sampled token, and those after it are dropped. Plain decoding has no candidates and one
// row.
void Verify::verify_tokens(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn) {
  JobRecord& job = *planned.lane->job;
  const int32_t num_candidates = job.lane.num_candidates;
  const int32_t num_verified = num_candidates - planned.num_undrawn;
  const size_t num_known = job.lane.tokens.size() - static_cast<size_t>(num_candidates);
  Trial trial(job);
  bool is_drawn = false;   // a token was sampled that the trial has not accepted yet
  bool is_forced = false;  // the constraint forces tokens after the accepted ones
  for (int32_t i = 0; i <= num_verified; ++i) {
    is_drawn = draw_next(planned, guide, drawn, num_candidates - i);
    if (!is_drawn) break;
    const SampledToken& sampled = job.step.drawn.back();
    const bool goes_on = i < num_verified && job.step.finish == FinishReason::unfinished &&
                         job.lane.tokens[num_known + static_cast<size_t>(i)] == sampled.token;
    if (!goes_on) break;
    accept(trial, sampled);
    // Forced tokens are not drawn, with drafts as without: a draw could spell the same text in other tokens.
    is_forced = token_sampling_.forces(job);
    if (is_forced) break;
  }
  // The last new token has not been computed yet, whether it replaced a candidate or follows all of them.
  const auto num_drawn = static_cast<int32_t>(job.step.drawn.size());
  const int32_t num_wrong = num_candidates - std::max(0, num_drawn - 1);
  planned.num_accepted -= num_wrong;
  if (guide != nullptr) guide->num_accepted -= num_wrong;
  if (is_forced) return add_forced(job);
  if (is_drawn && job.step.finish == FinishReason::unfinished) take_forced(job, trial);
}

// Samples the next token. An error after an accepted candidate does not undo the tokens before it, which may
// have ended the job by their text. If the job continues, the next step meets the error again.
bool Verify::draw_next(PlannedLane& planned, PlannedLane* guide, const Drawn& drawn, int32_t num_after) {
  JobStep& step = planned.lane->job->step;
  bool is_drawn = false;
  contain(
      "no memory for the tokens of a step",
      [&] { is_drawn = take(planned, token_sampling_.sample(planned, guide, drawn, num_after)); },
      [&](ErrorCode code, std::string_view what, std::string_view parameter) {
        if (step.drawn.empty()) step.fault(code, what, parameter);
      });
  return is_drawn;
}

// Adds the forced tokens. The next step computes them together with the sampled token.
void Verify::take_forced(JobRecord& job, Trial& trial) {
  if (!token_sampling_.may_force(job)) return;
  accept(trial, job.step.drawn.back());
  add_forced(job);
}

// Adds the tokens that the constraint forces after the accepted ones.
void Verify::add_forced(JobRecord& job) {
  forced_.clear();
  token_sampling_.force(job, forced_);
  for (const TokenId token : forced_) {
    SampledToken sampled;
    sampled.token = token;
    sampled.probability = 1.0F;
    job.step.drawn.push_back(std::move(sampled));
    ++job.step.num_forced;
    job.step.finish = finish_after(job, token);
    if (job.step.finish != FinishReason::unfinished) return;
  }
}

// Adds a sampled token. Returns false if there is none because the constraint allows none and may end.
bool Verify::take(const PlannedLane& planned, SampledToken sampled) {
  JobRecord& job = *planned.lane->job;
  if (sampled.fault == SampleFault::nothing_allowed) {
    const std::string limit = job.matcher == nullptr ? "" : job.matcher->exceeded_limit();
    if (!limit.empty())
      throw Error(ErrorCode::capacity, "constraint: the text cannot continue at new token {}: {}",
                  job.num_drawn_tokens(), limit)
          .at("constraint");
    if (!job.exclusions.empty() && (job.matcher == nullptr || !job.matcher->may_end())) {
      throw Error(ErrorCode::invalid_argument,
                  "banned_texts: every remaining continuation at new token {} is banned",
                  job.num_drawn_tokens())
          .at("banned_texts");
    }
    if (job.matcher == nullptr)
      throw Error(ErrorCode::numeric, "no token can be sampled as new token {}: all are excluded",
                  job.num_drawn_tokens());
    if (!job.matcher->may_end()) {
      throw Error(ErrorCode::invalid_argument,
                  "constraint: no token in the vocabulary continues the text at new token {}",
                  job.num_drawn_tokens())
          .at("constraint");
    }
    job.step.finish = FinishReason::completed;
    return false;
  }
  const TokenId token = sampled.token;
  job.step.drawn.push_back(std::move(sampled));
  job.step.finish = finish_after(job, token);
  return true;
}

// Adds rows one by one in the order of their positions, so that the sum has the same bits however the prompt
// was cut into chunks. A preempted job starts again.
void Verify::pool_states(const PlannedLane& planned) {
  JobRecord& job = *planned.lane->job;
  Pool& pool = job.step.pool;
  const bool reaches_end = job.lane.ends_at(planned.end());
  const bool takes_all = job.request.pooling == Pooling::mean;
  if (takes_all && planned.start > 0) {
    pool = job.pool;
  } else {
    std::fill(pool.sum.begin(), pool.sum.end(), 0.0);
    pool.num_tokens = 0;
  }
  if (takes_all && planned.start != pool.num_tokens) {
    throw Error(ErrorCode::internal, "{} hidden states are pooled, but the next is that of token {}",
                pool.num_tokens, planned.start);
  }
  if (takes_all) add_states(pool, planned.first_token, planned.num_tokens);
  if (!takes_all && reaches_end) add_states(pool, planned.first_token + planned.num_tokens - 1, 1);
  if (reaches_end) finish_embedding(job.request, pool, job.step.embedding);
}

void Verify::add_states(Pool& pool, int32_t first_row, int32_t num_rows) {
  const size_t columns = pool.sum.size();
  for (int32_t done = 0; done < num_rows; done += kRowsAtOnce) {
    const int32_t count = std::min(kRowsAtOnce, num_rows - done);
    states_.resize(static_cast<size_t>(count) * columns);
    executor_.read_hidden(first_row + done, states_);
    for (size_t i = 0; i < states_.size(); ++i) pool.sum[i % columns] += states_[i];
  }
  pool.num_tokens += num_rows;
}

}  // namespace quire
