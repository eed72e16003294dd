#include "core/sampling/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/sampling/vector_level.h"

namespace quire {
namespace {

constexpr size_t kLanes = 16;           // independent chains for the vectorizer; results do not depend on it
constexpr uint32_t kProfileShift = 22;  // leaves sign (0), exponent and one bit of the mantissa
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns exp(x) for x <= 0 with a relative error of about 1e-7: 2^n * e^r with r within ln(2)/2 of 0. Uses
// only operations that IEEE 754 defines exactly, in a fixed order.
inline float exp_share(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // few enough bits that n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  x = x > -80.0F ? x : -80.0F;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // The low bits of `shifted` contain n; moved to the exponent they scale p by 2^n.
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (std::bit_cast<uint32_t>(shifted) << 23));
}

[[gnu::always_inline]] inline void fill_shares(gsl::span<const float> logits, float max_logit,
                                               float inverse_temperature, float* __restrict shares) {
  const float* __restrict in = logits.data();
  const size_t size = logits.size();
  for (size_t idx = 0; idx < size; ++idx)
    shares[idx] = exp_share((in[idx] - max_logit) * inverse_temperature);
}

void fill_shares_anywhere(gsl::span<const float> logits, float max_logit, float inverse_temperature,
                          float* shares) {
  fill_shares(logits, max_logit, inverse_temperature, shares);
}

QUIRE_FOR_AVX2 void fill_shares_avx2(gsl::span<const float> logits, float max_logit,
                                     float inverse_temperature, float* shares) {
  fill_shares(logits, max_logit, inverse_temperature, shares);
}

void keep_front(std::vector<Candidate>& items, size_t count) {
  std::nth_element(items.begin(), items.begin() + static_cast<ptrdiff_t>(count) - 1, items.end(),
                   comes_before);
  items.resize(count);
}

Weight sum_of(const std::vector<Candidate>& items, size_t begin, size_t end) {
  Weight sum = 0;
  for (size_t idx = begin; idx < end; ++idx) sum += items[idx].weight;
  return sum;
}

}  // namespace

bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

float changed_logit(double value, float before) {
  if (std::isinf(before)) return before;
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMax, kMax));
}

RowScan scan_row(gsl::span<const float> logits) {
  std::array<float, kLanes> largest;
  largest.fill(-kInfinity);
  std::array<uint32_t, kLanes> suspect{};
  const float* values = logits.data();
  const size_t size = logits.size();
  size_t idx = 0;
  for (; idx + kLanes <= size; idx += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[idx + lane];
      largest[lane] = value > largest[lane] ? value : largest[lane];
      suspect[lane] |= value < kInfinity ? 0U : 1U;
    }
  }
  for (; idx < size; ++idx) {
    largest[0] = std::max(largest[0], values[idx]);
    suspect[0] |= values[idx] < kInfinity ? 0U : 1U;
  }
  const bool finite = std::all_of(suspect.begin(), suspect.end(), [](uint32_t bit) { return bit == 0; });
  return {*std::max_element(largest.begin(), largest.end()), finite};
}

TokenId arg_max(gsl::span<const float> logits, float max_logit) {
  const auto largest = std::find(logits.begin(), logits.end(), max_logit);
  Expects(largest != logits.end());
  return static_cast<TokenId>(largest - logits.begin());
}

float share_of(float logit, float max_logit, float inverse_temperature) {
  return exp_share((logit - max_logit) * inverse_temperature);
}

void compute_shares(gsl::span<const float> logits, float max_logit, float inverse_temperature,
                    gsl::span<float> shares) {
  const auto compute = has_avx2() ? fill_shares_avx2 : fill_shares_anywhere;
  compute(logits, max_logit, inverse_temperature, shares.data());
}

Weight sum_weights(gsl::span<const float> shares) {
  Weight sum = 0;
  for (const float share : shares) sum += weight_of(share);
  return sum;
}

WeightProfile::WeightProfile(gsl::span<const float> shares) {
  // Two chains, because neighbours often update the same entry.
  std::array<std::array<Weight, 512>, 2> halves{};
  for (size_t idx = 0; idx < shares.size(); ++idx) {
    halves[idx % 2][std::bit_cast<uint32_t>(shares[idx]) >> kProfileShift] += weight_of(shares[idx]);
  }
  for (size_t idx = 0; idx < weights_.size(); ++idx) {
    weights_[idx] = halves[0][idx] + halves[1][idx];
    total_ += weights_[idx];
  }
}

float WeightProfile::share_reaching(Weight target) const {
  size_t idx = weights_.size() - 1;
  for (Weight sum = weights_[idx]; sum < target; sum += weights_[idx]) --idx;
  return std::bit_cast<float>(static_cast<uint32_t>(idx) << kProfileShift);
}

Cutoff find_kth(gsl::span<const float> logits, size_t k, std::vector<Candidate>& front) {
  Expects(k >= 1 && k <= logits.size());
  // Collects up to twice k tokens and drops the worse half whenever the buffer is full. After that most
  // tokens fail one comparison. Ids ascend, so an equal logit comes later in the order and fails too.
  const size_t capacity = std::max<size_t>(2 * k, 256);
  float threshold = -kInfinity;
  bool threshold_known = false;
  front.clear();
  for (size_t idx = 0; idx < logits.size(); ++idx) {
    const float logit = logits[idx];
    if (threshold_known && logit <= threshold) continue;
    front.push_back({logit, static_cast<TokenId>(idx), 0});
    if (front.size() < capacity) continue;
    keep_front(front, k);
    threshold = front.back().logit;
    threshold_known = true;
  }
  keep_front(front, k);
  return {front.back().logit, front.back().token};
}

Cutoff find_nucleus(const std::vector<Candidate>& candidates, Weight target, std::vector<Candidate>& order) {
  order.assign(candidates.begin(), candidates.end());
  size_t begin = 0;
  size_t end = order.size();
  Weight before = 0;  // weight of order[0, begin), which comes before order[begin, end)
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    const auto at = [&](size_t idx) { return order.begin() + static_cast<ptrdiff_t>(idx); };
    std::nth_element(at(begin), at(middle), at(end), comes_before);
    const Weight front = sum_of(order, begin, middle);
    if (before + front >= target) {
      end = middle;
    } else {
      before += front;
      begin = middle;
    }
  }
  return {order[begin].logit, order[begin].token};
}

}  // namespace quire
