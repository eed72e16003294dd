#include "core/sampling/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/sampling/selection.h"

namespace quire {
namespace {

double repeat(double logit, double penalty) {
  return logit > 0.0 ? logit / penalty : logit * penalty;
}

}  // namespace

TokenHistory::TokenHistory(const SamplingSettings& settings)
    : keeps_tokens_(settings.has_penalties() || settings.has_dry()),
      counts_tokens_(settings.has_penalties()),
      repetition_(settings.repetition_penalty),
      frequency_(settings.frequency_penalty),
      presence_(settings.presence_penalty),
      range_(settings.penalty_range < 0 ? std::numeric_limits<size_t>::max()
                                        : static_cast<size_t>(settings.penalty_range)),
      decay_(static_cast<size_t>(settings.penalty_decay)) {}

void TokenHistory::reserve(size_t num_tokens) {
  if (!keeps_tokens_) return;
  tokens_.reserve(num_tokens);
  if (!counts_tokens_) return;
  // Until the oldest token is dropped, one more token is counted.
  if (range_ > 0) counts_.reserve(range_ < num_tokens ? range_ + 1 : num_tokens);
}

void TokenHistory::append(TokenId token) {
  if (!keeps_tokens_) return;
  tokens_.push_back(token);
  if (!counts_tokens_) return;
  if (range_ > 0) counts_.add(token);
  const size_t num_tokens = tokens_.size();
  if (range_ > 0 && num_tokens > range_) counts_.remove(tokens_[num_tokens - 1 - range_]);
}

void TokenHistory::pop() {
  if (!keeps_tokens_) return;
  Expects(!tokens_.empty());
  const size_t num_tokens = tokens_.size();
  if (counts_tokens_ && range_ > 0) {
    if (num_tokens > range_) counts_.add(tokens_[num_tokens - 1 - range_]);
    counts_.remove(tokens_.back());
  }
  tokens_.pop_back();
}

void TokenHistory::penalise(gsl::span<float> logits, std::vector<bool>& seen) const {
  if (!counts_tokens_) return;
  for (const auto& [token, count] : counts_.entries()) {
    float& logit = logits[static_cast<size_t>(token)];
    const double penalised = repeat(logit, repetition_) - presence_ - static_cast<double>(frequency_) * count;
    logit = changed_logit(penalised, logit);
  }
  if (fades()) penalize_faded(logits, seen);
}

void TokenHistory::penalize_faded(gsl::span<float> logits, std::vector<bool>& seen) const {
  const size_t end_age = std::min(tokens_.size(), range_ + decay_);
  const auto token_of_age = [&](size_t age) { return tokens_[tokens_.size() - 1 - age]; };
  for (size_t age = range_; age < end_age; ++age) {
    const TokenId token = token_of_age(age);
    const double strength = 1.0 - static_cast<double>(age - range_) / static_cast<double>(decay_);
    float& logit = logits[static_cast<size_t>(token)];
    double penalised = logit;
    if (!counts_.contains(token) && !seen[static_cast<size_t>(token)]) {
      penalised = repeat(penalised, 1.0 + (repetition_ - 1.0) * strength) - presence_ * strength;
    }
    seen[static_cast<size_t>(token)] = true;
    logit = changed_logit(penalised - frequency_ * strength, logit);
  }
  for (size_t age = range_; age < end_age; ++age) seen[static_cast<size_t>(token_of_age(age))] = false;
}

}  // namespace quire
