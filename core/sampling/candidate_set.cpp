#include "core/sampling/candidate_set.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

double probability(const Candidate& candidate, Weight total) {
  return static_cast<double>(candidate.weight) / static_cast<double>(total);
}

Weight share_of_total(Weight total, float mass) {
  const auto target = static_cast<Weight>(std::ceil(static_cast<double>(total) * static_cast<double>(mass)));
  return std::clamp<Weight>(target, 1, total);
}

}  // namespace

CandidateSet::CandidateSet(int32_t vocab_size) {
  const auto size = static_cast<size_t>(vocab_size);
  items_.reserve(size);
  order_.reserve(size);
  distances_.reserve(size);
}

void CandidateSet::fill(gsl::span<const float> logits, float max_logit) {
  items_.clear();
  for (size_t idx = 0; idx < logits.size(); ++idx) {
    if (std::isinf(logits[idx])) continue;
    items_.push_back({logits[idx] - max_logit, static_cast<TokenId>(idx), 0});
  }
  weigh();
}

void CandidateSet::apply(SamplerStage stage, const SamplingSettings& settings, const StageInputs& inputs) {
  if (!settings.is_on(stage)) return;
  switch (stage) {
    case SamplerStage::temperature:
      return apply_temperature(settings);
    case SamplerStage::top_n_sigma:
      return keep_top_n_sigma(settings.top_n_sigma);
    case SamplerStage::top_k:
      return keep_top_k(settings.top_k);
    case SamplerStage::top_p:
      return keep_top_p(settings.top_p);
    case SamplerStage::top_a:
      return keep_top_a(settings.top_a);
    case SamplerStage::min_p:
      return keep_min_p(settings.min_p);
    case SamplerStage::tail_free:
      return keep_tail_free(settings.tail_free);
    case SamplerStage::typical:
      return keep_typical(settings.typical);
    case SamplerStage::mirostat:
      return keep_unsurprising(inputs.mirostat_mu);
    case SamplerStage::xtc:
      // The high 53 bits are a uniform double below 1.
      if (static_cast<double>(inputs.xtc_bits >> 11) * 0x1p-53 < settings.xtc_probability)
        exclude_top_choices(settings);
      return;
  }
}

gsl::span<const Candidate> CandidateSet::sorted() {
  order_.assign(items_.begin(), items_.end());
  std::sort(order_.begin(), order_.end(), comes_before);
  return order_;
}

Weight CandidateSet::total() const {
  Weight sum = 0;
  for (const Candidate& item : items_) sum += item.weight;
  return sum;
}

void CandidateSet::weigh() {
  for (Candidate& item : items_) item.weight = weight_of(share_of(item.logit, 0.0F, 1.0F));
}

// Applies the temperature relative to the largest remaining logit: an earlier stage may have removed the
// largest one.
void CandidateSet::apply_temperature(const SamplingSettings& settings) {
  const float temperature =
      settings.has_dynamic_temperature() ? dynamic_temperature(settings) : settings.temperature;
  const float inverse = 1.0F / temperature;
  const auto largest = std::max_element(
      items_.begin(), items_.end(), [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; });
  const float max_logit = largest->logit;
  for (Candidate& item : items_) {
    const float below = item.logit - max_logit;
    const float smoothed =
        settings.smoothing_factor > 0.0F ? -settings.smoothing_factor * below * below : below;
    item.logit = smoothed * inverse;
  }
  weigh();
}

float CandidateSet::dynamic_temperature(const SamplingSettings& s) const {
  if (items_.size() < 2) return s.max_temperature;
  const double share = std::clamp(entropy() / std::log(static_cast<double>(items_.size())), 0.0, 1.0);
  const double risen = std::pow(share, static_cast<double>(s.temperature_exponent));
  return static_cast<float>(s.min_temperature +
                            (static_cast<double>(s.max_temperature) - s.min_temperature) * risen);
}

double CandidateSet::entropy() const {
  const Weight all = total();
  double sum = 0.0;
  for (const Candidate& item : items_) {
    if (item.weight == 0) continue;
    const double p = probability(item, all);
    sum -= p * std::log(p);
  }
  return sum;
}

Weight CandidateSet::max_weight() const {
  Weight largest = 0;
  for (const Candidate& item : items_) largest = std::max(largest, item.weight);
  return largest;
}

void CandidateSet::keep_weights_from(double least) {
  const double bound = std::min(least, static_cast<double>(max_weight()));
  std::erase_if(items_, [&](const Candidate& item) { return static_cast<double>(item.weight) < bound; });
}

void CandidateSet::keep_until(const Cutoff& cutoff) {
  std::erase_if(items_, [&](const Candidate& item) { return !cutoff.keeps(item.logit, item.token); });
}

void CandidateSet::keep_top_n_sigma(float n) {
  const auto count = static_cast<double>(items_.size());
  double sum = 0.0;
  float largest = items_.front().logit;
  for (const Candidate& item : items_) {
    sum += item.logit;
    largest = std::max(largest, item.logit);
  }
  const double mean = sum / count;
  double squares = 0.0;
  for (const Candidate& item : items_) squares += (item.logit - mean) * (item.logit - mean);
  const double least = largest - static_cast<double>(n) * std::sqrt(squares / count);
  std::erase_if(items_, [&](const Candidate& item) { return item.logit < least; });
}

void CandidateSet::keep_top_k(int32_t k) {
  const auto count = static_cast<size_t>(k);
  if (count >= items_.size()) return;
  order_.assign(items_.begin(), items_.end());
  const auto kth = order_.begin() + static_cast<ptrdiff_t>(count) - 1;
  std::nth_element(order_.begin(), kth, order_.end(), comes_before);
  keep_until({kth->logit, kth->token});
}

void CandidateSet::keep_top_p(float top_p) {
  keep_until(find_nucleus(items_, share_of_total(total(), top_p), order_));
}

void CandidateSet::keep_top_a(float a) {
  const auto largest = static_cast<double>(max_weight());
  keep_weights_from(static_cast<double>(a) * largest * largest / static_cast<double>(total()));
}

void CandidateSet::keep_min_p(float min_p) {
  keep_weights_from(static_cast<double>(min_p) * static_cast<double>(max_weight()));
}

// The curvature at a token is the absolute second difference of the sorted probabilities there.
void CandidateSet::keep_tail_free(float z) {
  if (items_.size() < 3) return;
  const gsl::span<const Candidate> order = sorted();
  const Weight all = total();
  distances_.clear();
  double sum = 0.0;
  for (size_t idx = 0; idx + 2 < order.size(); ++idx) {
    const double curvature = std::abs(probability(order[idx], all) - 2.0 * probability(order[idx + 1], all) +
                                      probability(order[idx + 2], all));
    distances_.push_back(curvature);
    sum += curvature;
  }
  double passed = 0.0;
  for (size_t idx = 0; idx < distances_.size(); ++idx) {
    passed += distances_[idx];
    if (passed > static_cast<double>(z) * sum) return keep_until({order[idx].logit, order[idx].token});
  }
}

// Tokens without weight are infinitely far from any entropy.
void CandidateSet::keep_typical(float mass) {
  const Weight all = total();
  const double entropy_of_all = entropy();
  std::erase_if(items_, [](const Candidate& item) { return item.weight == 0; });
  const auto distance = [&](const Candidate& item) {
    return std::abs(-std::log(probability(item, all)) - entropy_of_all);
  };
  order_.assign(items_.begin(), items_.end());
  std::sort(order_.begin(), order_.end(), [&](const Candidate& a, const Candidate& b) {
    const double to_a = distance(a), to_b = distance(b);
    return to_a < to_b || (to_a == to_b && comes_before(a, b));
  });
  const Weight target = share_of_total(all, mass);
  Weight sum = 0;
  size_t num_kept = 0;
  while (num_kept < order_.size() && sum < target) sum += order_[num_kept++].weight;
  items_.assign(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(num_kept));
  std::sort(items_.begin(), items_.end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

void CandidateSet::keep_unsurprising(double mu) {
  keep_weights_from(static_cast<double>(total()) * std::exp2(-mu));
}

void CandidateSet::exclude_top_choices(const SamplingSettings& settings) {
  const double threshold = static_cast<double>(settings.xtc_threshold) * static_cast<double>(total());
  const auto is_ignored = [&](const Candidate& item) {
    return std::find(settings.xtc_ignored.begin(), settings.xtc_ignored.end(), item.token) !=
           settings.xtc_ignored.end();
  };
  const auto is_top = [&](const Candidate& item) {
    return static_cast<double>(item.weight) >= threshold && item.weight > 0 && !is_ignored(item);
  };
  const Candidate* last = nullptr;  // last one of the top choices, in the order of Cutoff
  for (const Candidate& item : items_) {
    if (is_top(item) && (last == nullptr || comes_before(*last, item))) last = &item;
  }
  if (last == nullptr) return;
  const Candidate stays = *last;
  std::erase_if(items_, [&](const Candidate& item) { return is_top(item) && comes_before(item, stays); });
}

}  // namespace quire
