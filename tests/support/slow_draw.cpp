#include "tests/support/slow_draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/sampling/selection.h"
#include "core/sampling/settings.h"
#include "kernels/interface/token_noise.h"

namespace quire::testing {

namespace {

using kernels::SampleOutcome;
using kernels::SampleRow;
using kernels::SampleStatus;

constexpr double kMaxLogit = std::numeric_limits<float>::max();

float bounded(double logit) {
  return static_cast<float>(std::clamp(logit, -kMaxLogit, kMaxLogit));
}

void edit(const SampleRow& draw, gsl::span<const kernels::LogitEdit> edits, std::vector<float>& row) {
  const auto run = [&](int32_t skip, int32_t count) {
    return edits.subspan(static_cast<size_t>(draw.first_edit + skip), static_cast<size_t>(count));
  };
  for (const auto& [token, count] : run(0, draw.num_penalised)) {
    float& logit = row[static_cast<size_t>(token)];
    if (std::isinf(logit)) continue;
    const double repetition = draw.repetition_penalty;
    const double repeated = logit > 0.0F ? logit / repetition : logit * repetition;
    logit = bounded(repeated - draw.presence_penalty - double{draw.frequency_penalty} * count);
  }
  for (const auto& [token, bias] : run(draw.num_penalised, draw.num_biased)) {
    float& logit = row[static_cast<size_t>(token)];
    if (!std::isinf(logit)) logit = bounded(double{logit} + bias);
  }
  for (const auto& [token, unused] : run(draw.num_penalised + draw.num_biased, draw.num_excluded))
    row[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; draw.mask != nullptr && id < row.size(); ++id) {
    if ((draw.mask[id / 32] >> (id % 32) & 1U) == 0) row[id] = -std::numeric_limits<float>::infinity();
  }
}

std::vector<Candidate> in_order(gsl::span<const float> row, float inverse_temperature) {
  std::vector<Candidate> all;
  const float largest = *std::max_element(row.begin(), row.end());
  for (size_t id = 0; id < row.size(); ++id)
    all.push_back(
        {row[id], static_cast<TokenId>(id), weight_of(share_of(row[id], largest, inverse_temperature))});
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
  return all;
}

Weight weigh(const std::vector<Candidate>& candidates) {
  Weight sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

// Returns the smallest integer that is at least share * whole.
Weight part_of(Weight whole, float share) {
  return static_cast<Weight>(std::ceil(static_cast<double>(whole) * double{share}));
}

void cut(const SampleRow& draw, std::vector<Candidate>& candidates) {
  if (draw.top_k > 0) candidates.resize(std::min(candidates.size(), static_cast<size_t>(draw.top_k)));
  if (draw.top_p < 1.0F) {
    const Weight total = weigh(candidates);
    const Weight target = std::clamp<Weight>(part_of(total, draw.top_p), 1, total);
    Weight sum = 0;
    size_t kept = 0;
    while (sum < target) sum += candidates[kept++].weight;
    candidates.resize(kept);
  }
  std::erase_if(candidates, [&](const Candidate& c) { return c.weight < part_of(kWeightOne, draw.min_p); });
}

TokenId pick(const std::vector<Candidate>& candidates, uint64_t random_bits) {
  TokenId first = -1;
  float earliest = 0.0F;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight == 0) continue;
    const float time = kernels::arrival_time(random_bits, static_cast<uint32_t>(candidate.token),
                                             static_cast<float>(candidate.weight));
    if (first >= 0 && (time > earliest || (time == earliest && candidate.token > first))) continue;
    first = candidate.token;
    earliest = time;
  }
  return first;
}

float log_prob(gsl::span<const float> row, int32_t token) {
  const std::vector<Candidate> all = in_order(row, 1.0F);
  const double total = static_cast<double>(weigh(all)) / static_cast<double>(kWeightOne);
  return static_cast<float>(double{row[static_cast<size_t>(token)]} -
                            (double{all[0].logit} + std::log(total)));
}

}  // namespace

SampleOutcome slow_draw(gsl::span<const float> row, const SampleRow& draw,
                        gsl::span<const kernels::LogitEdit> edits) {
  SampleOutcome outcome;
  const bool finite =
      std::all_of(row.begin(), row.end(), [](float v) { return v < std::numeric_limits<float>::infinity(); });
  if (!finite) {
    outcome.status = SampleStatus::not_finite;
    return outcome;
  }
  std::vector<float> edited(row.begin(), row.end());
  edit(draw, edits, edited);
  const bool greedy = draw.temperature < SamplingSettings::kGreedyTemperature;
  std::vector<Candidate> candidates = in_order(edited, greedy ? 1.0F : 1.0F / draw.temperature);
  if (std::isinf(candidates[0].logit)) {
    outcome.status = SampleStatus::nothing_allowed;
    return outcome;
  }
  if (greedy) {
    outcome.token = candidates[0].token;
  } else {
    cut(draw, candidates);
    outcome.token = pick(candidates, draw.random_bits);
  }
  if (draw.wants_log_prob != 0) outcome.log_prob = log_prob(row, outcome.token);
  return outcome;
}

}  // namespace quire::testing
