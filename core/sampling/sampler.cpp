#include "core/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/sampling/race.h"

namespace quire {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

void add_bias(const SamplingSettings& settings, gsl::span<float> logits) {
  for (const LogitBias& entry : settings.logit_bias) {
    float& logit = logits[static_cast<size_t>(entry.token)];
    logit = changed_logit(double{logit} + double{entry.bias}, logit);
  }
}

void exclude(gsl::span<const TokenId> tokens, gsl::span<float> logits) {
  for (const TokenId token : tokens) logits[static_cast<size_t>(token)] = kExcluded;
}

void apply_mask(const TokenMask& mask, gsl::span<float> logits) {
  if (mask.allows_all()) return;
  Expects(mask.words.size() * 32 >= logits.size());
  for (size_t idx = 0; idx < logits.size(); ++idx) {
    if (!mask.allows(static_cast<TokenId>(idx))) logits[idx] = kExcluded;
  }
}

bool changes_nothing(const SampleRequest& request) {
  const SamplingSettings& settings = request.state->settings();
  return !settings.has_penalties() && !settings.has_dry() && settings.logit_bias.empty() &&
         settings.banned_tokens.empty() && request.banned.empty() && request.mask.allows_all();
}

// Returns the part of `total` that the kept tokens must reach together (nucleus sampling).
Weight nucleus_target(Weight total, float top_p) {
  const auto target = static_cast<Weight>(std::ceil(static_cast<double>(total) * static_cast<double>(top_p)));
  return std::clamp<Weight>(target, 1, total);
}

Weight min_p_weight(float min_p) {
  return static_cast<Weight>(std::ceil(static_cast<double>(min_p) * static_cast<double>(kWeightOne)));
}

float ratio(Weight part, Weight whole) {
  return static_cast<float>(static_cast<double>(part) / static_cast<double>(whole));
}

int32_t require_vocab_size(int32_t vocab_size) {
  if (vocab_size < 1 || vocab_size > Sampler::kMaxVocabSize) {
    throw Error(ErrorCode::unsupported,
                "a vocabulary of {} tokens is too large; at most {} tokens can be sampled", vocab_size,
                Sampler::kMaxVocabSize);
  }
  return vocab_size;
}

// Returns the point for a uniform u with skew applied: u ^ exp(-skew) of the total.
Weight skewed_point(const SamplerState& state, Weight total) {
  const double uniform = static_cast<double>(state.next_bits() >> 11) * 0x1p-53;
  const double bent = std::pow(uniform, std::exp(-static_cast<double>(state.settings().skew)));
  return std::min(static_cast<Weight>(bent * static_cast<double>(total)), total - 1);
}

// Returns the candidate at which the running sum of weights first exceeds `point`, which is below their sum.
const Candidate& candidate_at(gsl::span<const Candidate> candidates, Weight point) {
  Weight before = 0;
  for (const Candidate& candidate : candidates) {
    if (point < before + candidate.weight) return candidate;
    before += candidate.weight;
  }
  Expects(false);  // point < total
  return candidates.front();
}

}  // namespace

SamplerState::SamplerState(SamplingSettings settings, int32_t vocab_size)
    : settings_((settings.validate(vocab_size), std::move(settings))),
      history_(settings_),
      mirostat_(settings_) {}

void SamplerState::reserve(size_t num_tokens) {
  history_.reserve(num_tokens);
  mirostat_.reserve(num_tokens);
}

void SamplerState::append(TokenId token) {
  history_.append(token);
  ++num_tokens_;
}

void SamplerState::append(gsl::span<const TokenId> tokens) {
  for (const TokenId token : tokens) append(token);
}

void SamplerState::accept(TokenId token, float probability) {
  mirostat_.observe(num_tokens_, probability);
  append(token);
}

void SamplerState::rewind(uint64_t count) {
  Expects(count <= num_tokens_);
  for (uint64_t idx = 0; idx < count; ++idx) history_.pop();
  num_tokens_ -= count;
  mirostat_.rewind(num_tokens_);
}

Sampler::Sampler(int32_t vocab_size) : vocab_size_(require_vocab_size(vocab_size)), set_(vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  adjusted_.resize(size);
  shares_.resize(size);
  seen_.resize(size);
  candidates_.reserve(size);
  order_.reserve(size);
  lengths_.resize(size);
}

SampledToken Sampler::sample(const SampleRequest& request) {
  Expects(request.logits.size() == static_cast<size_t>(vocab_size_));
  SampledToken result;
  const RowScan raw = scan_row(request.logits);
  if (!raw.finite) {
    result.fault = SampleFault::non_finite;
    return result;
  }
  const bool unchanged = changes_nothing(request);
  const gsl::span<const float> logits = unchanged ? request.logits : adjust(request);
  const float max_logit = unchanged ? raw.max_logit : scan_row(logits).max_logit;
  if (std::isinf(max_logit)) {
    result.fault = SampleFault::nothing_allowed;
    return result;
  }
  const Drawn drawn = request.state->settings().is_greedy() ? Drawn{arg_max(logits, max_logit), 1.0F}
                                                            : draw(logits, max_logit, *request.state);
  result.token = drawn.token;
  result.probability = drawn.probability;
  if (request.want_log_prob || request.num_top_log_probs > 0) add_log_probs(request, raw.max_logit, result);
  return result;
}

// Returns a copy of the row after penalties, DRY, bias, bans and mask.
gsl::span<const float> Sampler::adjust(const SampleRequest& request) {
  const gsl::span<float> logits(adjusted_);
  std::copy(request.logits.begin(), request.logits.end(), logits.begin());
  request.state->history().penalise(logits, seen_);
  subtract_dry(*request.state, logits);
  add_bias(request.state->settings(), logits);
  exclude(request.state->settings().banned_tokens, logits);
  exclude(request.banned, logits);
  apply_mask(request.mask, logits);
  return logits;
}

void Sampler::subtract_dry(const SamplerState& state, gsl::span<float> logits) {
  const SamplingSettings& settings = state.settings();
  if (!settings.has_dry()) return;
  find_continuations(state.history().tokens(), settings, lengths_, continuations_);
  for (const Continuation& continuation : continuations_) {
    float& logit = logits[static_cast<size_t>(continuation.token)];
    logit = changed_logit(logit - dry_penalty(settings, continuation.length), logit);
  }
}

Sampler::Drawn Sampler::draw(gsl::span<const float> logits, float max_logit, const SamplerState& state) {
  const SamplingSettings& settings = state.settings();
  if (!settings.is_plain()) return draw_by_stages(logits, max_logit, state);
  const bool cut_by_count = settings.top_k > 0 && settings.top_k < vocab_size_;
  const float inverse_temperature = 1.0F / settings.temperature;
  if (!cut_by_count) compute_shares(logits, max_logit, inverse_temperature, shares_);
  if (!cut_by_count && settings.top_p == 1.0F && settings.min_p == 0.0F) return draw_from_all(state);

  const Weight total = cut_by_count ? collect_top_k(logits, max_logit, inverse_temperature, settings.top_k)
                                    : collect_likely(logits, settings);
  if (settings.top_p < 1.0F) {
    const Cutoff cutoff = find_nucleus(candidates_, nucleus_target(total, settings.top_p), order_);
    std::erase_if(candidates_, [&](const Candidate& c) { return !cutoff.keeps(c.logit, c.token); });
  }
  const Weight least = min_p_weight(settings.min_p);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < least; });
  Weight left = 0;
  for (const Candidate& candidate : candidates_) left += candidate.weight;
  const Candidate& drawn = first_to_arrive(candidates_, state.next_bits());
  return {drawn.token, ratio(drawn.weight, left)};
}

Sampler::Drawn Sampler::draw_by_stages(gsl::span<const float> logits, float max_logit,
                                       const SamplerState& state) {
  const SamplingSettings& settings = state.settings();
  const StageInputs inputs{state.mirostat_mu(), state.next_exclude_bits()};
  set_.fill(logits, max_logit);
  if (settings.order.empty()) {
    for (int32_t idx = 0; idx < kNumSamplerStages; ++idx)
      set_.apply(static_cast<SamplerStage>(idx), settings, inputs);
  } else {
    for (const SamplerStage stage : settings.order) set_.apply(stage, settings, inputs);
  }
  const Weight total = set_.total();
  const Candidate drawn = settings.skew == 0.0F ? first_to_arrive(set_.items(), state.next_bits())
                                                : candidate_at(set_.sorted(), skewed_point(state, total));
  return {drawn.token, ratio(drawn.weight, total)};
}

// Collects the first k tokens of the order, by ascending id, and returns their sum.
Weight Sampler::collect_top_k(gsl::span<const float> logits, float max_logit, float inverse_temperature,
                              int32_t k) {
  const Cutoff cutoff = find_kth(logits, static_cast<size_t>(k), order_);
  candidates_.clear();
  Weight total = 0;
  for (size_t idx = 0; idx < logits.size(); ++idx) {
    const auto token = static_cast<TokenId>(idx);
    if (!cutoff.keeps(logits[idx], token)) continue;
    const Weight weight = weight_of(share_of(logits[idx], max_logit, inverse_temperature));
    candidates_.push_back({logits[idx], token, weight});
    total += weight;
  }
  return total;
}

// Collects the tokens that top_p and min_p may keep, and few others, by ascending id. Returns the sum over
// the whole vocabulary.
Weight Sampler::collect_likely(gsl::span<const float> logits, const SamplingSettings& settings) {
  const WeightProfile profile(shares_);
  const Weight target = nucleus_target(profile.total(), settings.top_p);
  const float least = std::max(profile.share_reaching(target), settings.min_p);
  candidates_.clear();
  for (size_t idx = 0; idx < logits.size(); ++idx) {
    const float share = shares_[idx];
    if (share >= least) candidates_.push_back({logits[idx], static_cast<TokenId>(idx), weight_of(share)});
  }
  return profile.total();
}

Sampler::Drawn Sampler::draw_from_all(const SamplerState& state) const {
  const TokenId token = first_to_arrive(shares_, state.next_bits());
  return {token, ratio(weight_of(shares_[static_cast<size_t>(token)]), sum_weights(shares_))};
}

void Sampler::add_log_probs(const SampleRequest& request, float max_logit, SampledToken& result) {
  compute_shares(request.logits, max_logit, 1.0F, shares_);
  const double total = static_cast<double>(sum_weights(shares_)) / static_cast<double>(kWeightOne);
  const double log_total = double{max_logit} + std::log(total);
  const auto log_prob = [&](float logit) { return static_cast<float>(double{logit} - log_total); };
  result.log_prob = log_prob(request.logits[static_cast<size_t>(result.token)]);
  if (request.num_top_log_probs <= 0) return;
  const size_t count = std::min(static_cast<size_t>(request.num_top_log_probs), request.logits.size());
  find_kth(request.logits, count, order_);
  std::sort(order_.begin(), order_.end(), comes_before);
  result.top_log_probs.reserve(count);
  for (const Candidate& best : order_) result.top_log_probs.push_back({best.token, log_prob(best.logit)});
}

}  // namespace quire
