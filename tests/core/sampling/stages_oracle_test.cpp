// Compares every stage, alone, in pairs and in any order, with a slow sampler that follows the definitions:
// it sorts everything and computes in long double. Cases in which one of its decisions is too close for that
// arithmetic are counted and skipped.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/sampling/random.h"
#include "core/sampling/sampler.h"
#include "tests/support/case_stride.h"
#include "tests/support/slow_race.h"

namespace quire {
namespace {

using Real = long double;
constexpr Real kClose = 2e-6L;

struct Item {
  TokenId token;
  Real logit;
};

class SlowDraw {
 public:
  SlowDraw(const std::vector<float>& row, const SamplingSettings& settings, const TokenIds& history, Real mu)
      : settings_(settings), mu_(mu), position_(history.size()) {
    for (size_t idx = 0; idx < row.size(); ++idx) {
      if (!std::isinf(row[idx])) items_.push_back({static_cast<TokenId>(idx), row[idx]});
    }
    subtract_dry(history);
    sort();
  }

  // Returns tokens and probabilities; empty if a decision is too close.
  std::optional<std::vector<std::pair<TokenId, Real>>> run() {
    std::vector<SamplerStage> order = settings_.order;
    if (order.empty()) {
      order.resize(kNumSamplerStages);
      for (int idx = 0; idx < kNumSamplerStages; ++idx) order[static_cast<size_t>(idx)] = SamplerStage(idx);
    }
    for (const SamplerStage stage : order) {
      if (settings_.is_on(stage)) apply(stage);
      if (close_) return std::nullopt;
    }
    const auto p = probabilities();
    std::vector<std::pair<TokenId, Real>> result;
    for (size_t i = 0; i < items_.size(); ++i) result.emplace_back(items_[i].token, p[i]);
    return result;
  }

 private:
  void sort() {
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    });
  }

  // Subtracts the DRY penalty, comparing at every end of every earlier occurrence.
  void subtract_dry(const TokenIds& history) {
    if (!settings_.has_dry()) return;
    const size_t range = settings_.dry_range < 0 ? history.size() : static_cast<size_t>(settings_.dry_range);
    const TokenIds recent(history.end() - static_cast<ptrdiff_t>(std::min(range, history.size())),
                          history.end());
    for (Item& item : items_) {
      int longest = 0;
      for (size_t end = 1; end < recent.size(); ++end) {
        if (recent[end] != item.token) continue;
        for (int length = 1; length <= settings_.dry_max_length && static_cast<size_t>(length) <= end;
             ++length) {
          const TokenIds there(recent.begin() + static_cast<ptrdiff_t>(end) - length,
                               recent.begin() + static_cast<ptrdiff_t>(end));
          const TokenIds newest(recent.end() - length, recent.end());
          const auto breaks = [&](TokenId token) {
            return settings_.dry_breakers &&
                   std::count(settings_.dry_breakers->begin(), settings_.dry_breakers->end(), token) > 0;
          };
          if (there == newest && std::none_of(newest.begin(), newest.end(), breaks))
            longest = std::max(longest, length);
        }
      }
      if (longest < settings_.dry_allowed_length) continue;
      // Rounds to float at the same point as the sampler.
      item.logit = static_cast<float>(
          static_cast<double>(item.logit) -
          static_cast<double>(settings_.dry_multiplier) *
              std::pow(static_cast<double>(settings_.dry_base), longest - settings_.dry_allowed_length));
    }
  }

  std::vector<Real> probabilities() const {
    std::vector<Real> p;
    for (const Item& item : items_) p.push_back(std::exp(item.logit - items_.front().logit));
    const Real total = std::accumulate(p.begin(), p.end(), Real{0});
    for (Real& value : p) value /= total;
    return p;
  }

  Real entropy() const {
    Real sum = 0;
    for (const Real p : probabilities()) sum -= p > 0 ? p * std::log(p) : 0;
    return sum;
  }

  // Keeps the items for which value >= bound, compared relative to the bound. Values equal to the largest are
  // always kept.
  void keep_from(const std::vector<Real>& values, Real bound) {
    std::vector<Item> kept;
    const Real decides = std::min(bound, values[0]);  // the largest is always kept
    for (size_t i = 0; i < items_.size(); ++i) {
      const Real margin = kClose * std::max<Real>(std::abs(decides), 1e-9L);
      if (values[i] != values[0] && std::abs(values[i] - decides) <= margin) close_ = true;
      if (i == 0 || values[i] == values[0] || values[i] >= bound) kept.push_back(items_[i]);
    }
    items_ = kept;
  }

  void keep_first(size_t count) {
    if (count >= items_.size()) return;
    const Real gap = items_[count - 1].logit - items_[count].logit;
    if (gap > 0 && gap < kClose) close_ = true;
    items_.resize(count);
  }

  size_t count_to_mass(const std::vector<Real>& p, Real mass) {
    Real sum = 0;
    size_t count = 0;
    while (count < p.size() && sum < mass) {
      sum += p[count++];
      if (std::abs(sum - mass) < kClose) close_ = true;
    }
    return count;
  }

  void apply(SamplerStage stage) {
    const auto p = probabilities();
    switch (stage) {
      case SamplerStage::temperature: {
        Real temperature = settings_.temperature;
        if (settings_.has_dynamic_temperature()) {
          temperature = settings_.max_temperature;
          if (items_.size() > 1) {
            const Real share = std::clamp<Real>(entropy() / std::log(static_cast<Real>(items_.size())), 0, 1);
            temperature = settings_.min_temperature +
                          (settings_.max_temperature - settings_.min_temperature) *
                              std::pow(share, static_cast<Real>(settings_.temperature_exponent));
          }
        }
        const Real top = items_.front().logit;
        for (Item& item : items_) {
          const Real below = item.logit - top;
          item.logit =
              (settings_.smoothing_factor > 0 ? -settings_.smoothing_factor * below * below : below) /
              temperature;
        }
        break;
      }
      case SamplerStage::top_n_sigma: {
        std::vector<Real> values;
        Real mean = 0, squares = 0;
        for (const Item& item : items_) mean += item.logit / static_cast<Real>(items_.size());
        for (const Item& item : items_) squares += (item.logit - mean) * (item.logit - mean);
        for (const Item& item : items_) values.push_back(item.logit - items_.front().logit);
        const Real sigma = std::sqrt(squares / static_cast<Real>(items_.size()));
        keep_from(values, -settings_.top_n_sigma * sigma);
        break;
      }
      case SamplerStage::top_k:
        keep_first(static_cast<size_t>(settings_.top_k));
        break;
      case SamplerStage::top_p:
        keep_first(count_to_mass(p, settings_.top_p));
        break;
      case SamplerStage::top_a:
        keep_from(p, settings_.top_a * p[0] * p[0]);
        break;
      case SamplerStage::min_p:
        keep_from(p, settings_.min_p * p[0]);
        break;
      case SamplerStage::tail_free: {
        if (p.size() < 3) break;
        std::vector<Real> curvature;
        for (size_t i = 0; i + 2 < p.size(); ++i)
          curvature.push_back(std::abs(p[i] - 2 * p[i + 1] + p[i + 2]));
        const Real sum = std::accumulate(curvature.begin(), curvature.end(), Real{0});
        Real passed = 0;
        for (size_t i = 0; i < curvature.size(); ++i) {
          passed += curvature[i];
          if (std::abs(passed - settings_.tail_free * sum) < kClose * std::max<Real>(sum, 1e-3L))
            close_ = true;
          if (passed > settings_.tail_free * sum) return keep_first(i + 1);
        }
        break;
      }
      case SamplerStage::typical: {
        const Real h = entropy();
        std::vector<size_t> by_distance(p.size());
        std::iota(by_distance.begin(), by_distance.end(), size_t{0});
        const auto distance = [&](size_t i) { return std::abs(-std::log(p[i]) - h); };
        std::stable_sort(by_distance.begin(), by_distance.end(),
                         [&](size_t a, size_t b) { return distance(a) < distance(b); });
        std::vector<Real> masses;
        for (const size_t i : by_distance) masses.push_back(p[i]);
        const size_t count = count_to_mass(masses, settings_.typical);
        if (count < by_distance.size()) {
          const Real inside = distance(by_distance[count - 1]), outside = distance(by_distance[count]);
          const bool equal = items_[by_distance[count - 1]].logit == items_[by_distance[count]].logit;
          if (!equal && outside - inside < 1e-4L) close_ = true;
        }
        by_distance.resize(count);
        std::vector<Item> kept;
        for (const size_t i : by_distance) kept.push_back(items_[i]);
        items_ = kept;
        sort();
        break;
      }
      case SamplerStage::mirostat:
        keep_from(p, std::exp2(-mu_));
        break;
      case SamplerStage::xtc: {
        const Real u =
            static_cast<Real>(random_bits(settings_.seed, position_, RandomPurpose::exclude) >> 11) *
            0x1p-53L;
        if (u >= settings_.xtc_probability) break;
        std::vector<size_t> top;
        for (size_t i = 0; i < items_.size(); ++i) {
          const auto& ignored = settings_.xtc_ignored;
          if (std::find(ignored.begin(), ignored.end(), items_[i].token) != ignored.end()) continue;
          if (std::abs(p[i] - settings_.xtc_threshold) < kClose) close_ = true;
          if (p[i] >= settings_.xtc_threshold) top.push_back(i);
        }
        std::vector<Item> kept;
        for (size_t i = 0; i < items_.size(); ++i) {
          if (top.empty() || i == top.back() || std::find(top.begin(), top.end(), i) == top.end())
            kept.push_back(items_[i]);
        }
        items_ = kept;
        break;
      }
    }
  }

  const SamplingSettings& settings_;
  Real mu_;
  uint64_t position_;
  std::vector<Item> items_;
  bool close_ = false;
};

// Returns the tokens that may be drawn with skew: u ^ exp(-skew) falls in their part of the sum, likelier
// tokens first.
TokenIds drawn_with_skew(const std::vector<std::pair<TokenId, Real>>& weighted, Real uniform, Real skew) {
  const Real u = std::pow(uniform, std::exp(-skew));
  TokenIds allowed;
  Real before = 0;
  for (const auto& [token, p] : weighted) {
    if (u > before - kClose && u < before + p + kClose) allowed.push_back(token);
    before += p;
  }
  return allowed;
}

TokenIds drawn_from(const std::vector<std::pair<TokenId, Real>>& weighted, const SamplingSettings& settings,
                    uint64_t position) {
  const uint64_t bits = random_bits(settings.seed, position);
  if (settings.skew == 0.0F) return testing::first_arrivals(weighted, bits);
  return drawn_with_skew(weighted, static_cast<Real>(bits) * 0x1p-64L, settings.skew);
}

class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) {}

  int pick(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  float uniform() { return static_cast<float>(random_() >> 8) * 0x1p-24F; }

  std::vector<float> row() {
    std::normal_distribution<float> normal(0.0F, 0.3F + 3.0F * uniform());
    std::vector<float> row(static_cast<size_t>(1 + pick(150)));
    for (float& logit : row) {
      logit = normal(random_);
      if (pick(60) == 0) logit = -std::numeric_limits<float>::infinity();
    }
    row[0] = 0.0F;
    return row;
  }

  // Returns settings with two random features enabled, each equally likely.
  SamplingSettings settings(int vocab_size) {
    SamplingSettings s;
    s.seed = random_();
    const std::vector<std::function<void()>> choices = {
        [&] { s.temperature = 0.2F + 2.0F * uniform(); },
        [&] { s.smoothing_factor = 0.05F + uniform(); },
        [&] {
          s.min_temperature = 0.2F + uniform();
          s.max_temperature = s.min_temperature + 0.1F + 2.0F * uniform();
          s.temperature_exponent = 0.3F + 2.0F * uniform();
        },
        [&] { s.top_n_sigma = 3.0F * uniform() + 0.01F; },
        [&] { s.top_k = 1 + pick(vocab_size); },
        [&] { s.top_p = 0.01F + 0.98F * uniform(); },
        [&] { s.top_a = 0.001F + uniform() * uniform(); },
        [&] { s.min_p = 0.001F + 0.9F * uniform() * uniform(); },
        [&] { s.tail_free = 0.01F + 0.98F * uniform(); },
        [&] { s.typical = 0.01F + 0.98F * uniform(); },
        [&] { s.mirostat_tau = 0.1F + 4.0F * uniform(); },
        [&] {
          s.xtc_probability = uniform();
          s.xtc_threshold = 0.5F * uniform();
          if (pick(2) == 0) s.xtc_ignored = {pick(vocab_size)};
        },
        [&] { s.skew = 4.0F * uniform() - 2.0F; },
        [&] {
          s.dry_multiplier = 0.1F + 2.0F * uniform();
          s.dry_allowed_length = 1 + pick(3);
          s.dry_max_length = s.dry_allowed_length + pick(8);
          if (pick(2) == 0) s.dry_range = pick(40);
          if (pick(2) == 0)
            s.dry_breakers = std::make_shared<const TokenIds>(TokenIds{pick(std::min(vocab_size, 3))});
        },
    };
    for (int i = 0; i < 2; ++i) choices[static_cast<size_t>(pick(static_cast<int>(choices.size())))]();
    if (pick(2) == 0) {
      s.order.resize(kNumSamplerStages);
      for (int i = 0; i < kNumSamplerStages; ++i) s.order[static_cast<size_t>(i)] = SamplerStage(i);
      std::shuffle(s.order.begin(), s.order.end(), random_);
    }
    return s;
  }

  // Returns a history with few distinct tokens, so that it has repetitions.
  TokenIds history(int vocab_size) {
    TokenIds tokens(static_cast<size_t>(pick(40)));
    for (TokenId& token : tokens) token = pick(std::min(vocab_size, 3));
    return tokens;
  }

 private:
  std::mt19937 random_;
};

int num_cases() {
  const char* const cases = std::getenv("QUIRE_SAMPLER_CASES");
  return cases == nullptr ? 20000 / testing::stride_if_sanitized(10) : std::atoi(cases);
}

TEST(StagesOracle, EveryPairOfSettingsInAnyOrderMatchesTheDefinitions) {
  Cases cases(20261122);
  int num_close = 0;
  const int count = num_cases();
  for (int idx = 0; idx < count; ++idx) {
    const auto row = cases.row();
    const auto vocab_size = static_cast<int32_t>(row.size());
    const auto settings = cases.settings(vocab_size);
    const auto history = cases.history(vocab_size);
    Sampler sampler(vocab_size);
    SamplerState state(settings, vocab_size);
    state.append(history);
    const SampledToken sampled = sampler.sample({.logits = row, .state = &state});
    ASSERT_EQ(sampled.fault, SampleFault::none) << "case " << idx;
    const auto weighted = SlowDraw(row, settings, history, 2.0L * settings.mirostat_tau).run();
    if (!weighted) {
      ++num_close;
      continue;
    }
    const TokenIds allowed = drawn_from(*weighted, settings, history.size());
    ASSERT_TRUE(std::find(allowed.begin(), allowed.end(), sampled.token) != allowed.end()) << "case " << idx;
    if (allowed.size() > 1) continue;
    const auto place = std::find_if(weighted->begin(), weighted->end(),
                                    [&](const auto& entry) { return entry.first == sampled.token; });
    ASSERT_NEAR(static_cast<double>(sampled.probability), static_cast<double>(place->second), 2e-5)
        << "case " << idx;
  }
  EXPECT_LT(num_close, count / 10);
}

// Compares Pearson's statistic of 100,000 draws, one per seed, with the probabilities of the definitions. Its
// mean is the degrees of freedom and its variance twice that; with these fixed seeds it never deviates by six
// standard deviations.
void expect_distribution(const std::vector<float>& row, SamplingSettings settings) {
  constexpr int kNumDraws = 100000 / testing::stride_if_sanitized(10);
  const auto vocab_size = static_cast<int32_t>(row.size());
  Sampler sampler(vocab_size);
  std::vector<double> expected(row.size());
  std::vector<int> counts(row.size());
  for (int seed = 0; seed < kNumDraws; ++seed) {
    settings.seed = static_cast<uint64_t>(seed);
    const SamplerState state(settings, vocab_size);
    const SampledToken sampled = sampler.sample({.logits = row, .state = &state});
    ++counts[static_cast<size_t>(sampled.token)];
    if (seed > 0 && settings.xtc_probability == 0.0F) continue;
    const auto weighted = SlowDraw(row, settings, {}, 2.0L * settings.mirostat_tau).run();
    ASSERT_TRUE(weighted.has_value());
    const double share = settings.xtc_probability == 0.0F ? kNumDraws : 1.0;
    for (const auto& [token, p] : *weighted)
      expected[static_cast<size_t>(token)] += share * static_cast<double>(p);
  }
  double statistic = 0.0;
  int num_outcomes = 0;
  for (size_t idx = 0; idx < row.size(); ++idx) {
    if (expected[idx] == 0.0) {
      EXPECT_EQ(counts[idx], 0) << "token " << idx;
      continue;
    }
    ++num_outcomes;
    statistic += (counts[idx] - expected[idx]) * (counts[idx] - expected[idx]) / expected[idx];
  }
  EXPECT_LT(statistic, (num_outcomes - 1) + 6.0 * std::sqrt(2.0 * num_outcomes));
}

TEST(StagesChiSquare, DrawsOfEachSettingHaveTheDistributionOfItsDefinition) {
  const std::vector<float> row = {2.1F, 1.3F, 1.25F, 0.4F, 0.0F, -0.3F, -0.9F, -1.7F};
  const std::vector<std::pair<const char*, std::function<void(SamplingSettings&)>>> settings = {
      {"none", [](SamplingSettings&) {}},
      {"temperature", [](SamplingSettings& s) { s.temperature = 1.7F; }},
      {"smoothing", [](SamplingSettings& s) { s.smoothing_factor = 0.3F; }},
      {"dynamic temperature",
       [](SamplingSettings& s) { s.min_temperature = 0.5F, s.max_temperature = 2.5F; }},
      {"top_n_sigma", [](SamplingSettings& s) { s.top_n_sigma = 1.0F; }},
      {"top_k", [](SamplingSettings& s) { s.top_k = 3; }},
      {"top_p", [](SamplingSettings& s) { s.top_p = 0.7F; }},
      {"top_a", [](SamplingSettings& s) { s.top_a = 0.4F; }},
      {"min_p", [](SamplingSettings& s) { s.min_p = 0.2F; }},
      {"tail_free", [](SamplingSettings& s) { s.tail_free = 0.8F; }},
      {"typical", [](SamplingSettings& s) { s.typical = 0.6F; }},
      {"mirostat", [](SamplingSettings& s) { s.mirostat_tau = 1.3F; }},
      {"xtc", [](SamplingSettings& s) { s.xtc_probability = 0.4F, s.xtc_threshold = 0.15F; }},
  };
  for (const auto& [name, change] : settings) {
    SCOPED_TRACE(name);
    SamplingSettings of;
    change(of);
    expect_distribution(row, of);
  }
}

// Token i of the sorted row, whose interval is [a, b), is drawn if u ^ exp(-skew) falls in it: with
// probability b ^ exp(skew) - a ^ exp(skew).
TEST(StagesChiSquare, SkewBendsTheUniformNumber) {
  const std::vector<float> row = {1.0F, 0.5F, 0.0F, -0.5F};
  SamplingSettings settings;
  settings.skew = 0.7F;
  constexpr int kNumDraws = 100000 / testing::stride_if_sanitized(10);
  Sampler sampler(4);
  std::array<int, 4> counts{};
  for (int seed = 0; seed < kNumDraws; ++seed) {
    settings.seed = static_cast<uint64_t>(seed);
    const SamplerState state(settings, 4);
    ++counts[static_cast<size_t>(sampler.sample({.logits = row, .state = &state}).token)];
  }
  double total = 0, before = 0, statistic = 0;
  for (const float logit : row) total += std::exp(static_cast<double>(logit));
  for (size_t idx = 0; idx < row.size(); ++idx) {
    const double after = before + std::exp(static_cast<double>(row[idx])) / total;
    const double power = std::exp(0.7);
    const double expected = kNumDraws * (std::pow(std::min(after, 1.0), power) - std::pow(before, power));
    statistic += (counts[idx] - expected) * (counts[idx] - expected) / expected;
    before = after;
  }
  EXPECT_LT(statistic, 3 + 6.0 * std::sqrt(8.0));
}

TEST(Mirostat, TheTargetFollowsEachSurpriseAndIsRestoredByARewind) {
  SamplingSettings settings;
  settings.mirostat_tau = 3.0F;
  settings.mirostat_eta = 0.5F;
  SamplerState state(settings, 100);
  state.append(TokenIds{1, 2, 3});
  EXPECT_DOUBLE_EQ(state.mirostat_mu(), 6.0);
  state.accept(7, 0.5F);  // surprise 1: mu rises by 0.5 * (3 - 1)
  EXPECT_NEAR(state.mirostat_mu(), 7.0, 1e-6);
  state.accept(8, 0.0625F);  // surprise 4: mu falls by 0.5
  EXPECT_NEAR(state.mirostat_mu(), 6.5, 1e-6);
  SamplerState fork = state;
  state.rewind(1);
  EXPECT_NEAR(state.mirostat_mu(), 7.0, 1e-6);
  state.rewind(1);
  EXPECT_DOUBLE_EQ(state.mirostat_mu(), 6.0);
  EXPECT_NEAR(fork.mirostat_mu(), 6.5, 1e-6);
}

TEST(SamplerOrder, IsParsedFromTextAndRefusedIfASettingWouldBeIgnored) {
  EXPECT_EQ(parse_sampler_order(" top_k ,temperature,xtc"),
            (std::vector{SamplerStage::top_k, SamplerStage::temperature, SamplerStage::xtc}));
  EXPECT_TRUE(parse_sampler_order("").empty());
  EXPECT_THROW(parse_sampler_order("top_q"), Error);
  EXPECT_THROW(parse_sampler_order("top_k,"), Error);
  SamplingSettings settings;
  settings.min_p = 0.1F;
  settings.order = {SamplerStage::top_k};
  EXPECT_THROW(settings.validate(10), Error);
  settings.order = {SamplerStage::top_k, SamplerStage::min_p, SamplerStage::top_k};
  EXPECT_THROW(settings.validate(10), Error);
  settings.order = {SamplerStage::min_p};
  EXPECT_NO_THROW(settings.validate(10));
}

// Cuts first and temperature last give another distribution than the default order.
TEST(SamplerOrder, DeterminesTheInputOfTheCuts) {
  const std::vector<float> row = {3.0F, 2.0F, 1.0F, 0.0F};
  SamplingSettings settings;
  settings.temperature = 5.0F;
  settings.top_p = 0.6F;
  Sampler sampler(4);
  const auto num_distinct = [&] {
    std::array<bool, 4> seen{};
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      settings.seed = seed;
      const SamplerState state(settings, 4);
      seen[static_cast<size_t>(sampler.sample({.logits = row, .state = &state}).token)] = true;
    }
    return std::count(seen.begin(), seen.end(), true);
  };
  EXPECT_EQ(num_distinct(), 3);
  settings.order = {SamplerStage::top_p, SamplerStage::temperature};
  EXPECT_EQ(num_distinct(), 1);
}

}  // namespace
}  // namespace quire
