// Compares the sampler with a slow one that follows the definitions: it sorts everything and computes in long
// double. Cases in which one of its decisions is too close for that arithmetic are counted and skipped.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "core/sampling/random.h"
#include "core/sampling/sampler.h"
#include "tests/support/case_stride.h"
#include "tests/support/slow_race.h"

namespace quire {
namespace {

using Real = long double;
constexpr Real kClose = 1e-6L;

struct Item {
  TokenId token;
  Real logit;
  Real mass = 0;
};

struct Verdict {
  bool too_close = false;
  TokenIds allowed;  // the token, or those that arrive at nearly the same time
  Real probability = 0;
};

std::vector<Item> adjust_slowly(const std::vector<float>& row, const SamplingSettings& s,
                                const TokenIds& history, const std::vector<uint32_t>& mask) {
  std::vector<Item> items;
  for (size_t idx = 0; idx < row.size(); ++idx) {
    const auto token = static_cast<TokenId>(idx);
    Real logit = row[idx];
    const auto occurrences = std::count(history.begin(), history.end(), token);
    if (occurrences > 0) {
      logit = logit > 0 ? logit / s.repetition_penalty : logit * s.repetition_penalty;
      logit -= s.presence_penalty + s.frequency_penalty * static_cast<Real>(occurrences);
    }
    for (const LogitBias& entry : s.logit_bias) logit += entry.token == token ? entry.bias : 0.0F;
    const auto& bans = s.banned_tokens;
    if (std::find(bans.begin(), bans.end(), token) != bans.end()) continue;
    if (!mask.empty() && !(mask[idx / 32] >> (idx % 32) & 1U)) continue;
    if (std::isinf(row[idx])) continue;
    items.push_back({token, logit});
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.logit > b.logit; });
  return items;
}

// Returns whether two tokens separated by a cut differ by less than single precision resolves, without being
// equal.
bool cut_is_close(const std::vector<Item>& items, size_t kept) {
  if (kept == 0 || kept >= items.size()) return false;
  const Real gap = items[kept - 1].logit - items[kept].logit;
  return gap > 0 && gap < kClose;
}

bool cut_top_p(std::vector<Item>& items, Real total, float top_p) {
  if (top_p >= 1.0F) return true;
  const Real target = static_cast<Real>(top_p) * total;
  Real sum = 0;
  size_t kept = 0;
  while (kept < items.size() && sum < target) {
    sum += items[kept++].mass;
    if (std::abs(sum - target) < kClose * total) return false;
  }
  if (cut_is_close(items, kept)) return false;
  items.resize(kept);
  return true;
}

bool cut_min_p(std::vector<Item>& items, float min_p) {
  size_t kept = 0;
  while (kept < items.size() && items[kept].mass >= min_p) {
    const bool decided = items[kept].mass == 1.0L || std::abs(items[kept].mass - min_p) > kClose * min_p;
    if (!decided) return false;
    ++kept;
  }
  if (kept < items.size() && std::abs(items[kept].mass - min_p) <= kClose * min_p && min_p > 0) return false;
  items.resize(kept);
  return true;
}

Real weigh(std::vector<Item>& items, float temperature) {
  Real total = 0;
  for (Item& item : items) total += item.mass = std::exp((item.logit - items[0].logit) / temperature);
  return total;
}

void draw_slowly(const std::vector<Item>& items, uint64_t bits, Verdict& verdict) {
  Real total = 0;
  std::vector<std::pair<TokenId, Real>> weighted;
  for (const Item& item : items) {
    weighted.emplace_back(item.token, item.mass);
    total += item.mass;
  }
  verdict.allowed = testing::first_arrivals(weighted, bits);
  for (const Item& item : items) {
    if (item.token == verdict.allowed[0]) verdict.probability = item.mass / total;
  }
}

Verdict sample_slowly(const std::vector<float>& row, const SamplingSettings& s, const TokenIds& history,
                      const std::vector<uint32_t>& mask) {
  Verdict verdict;
  auto items = adjust_slowly(row, s, history, mask);
  if (items.empty()) return verdict;
  if (s.is_greedy()) {
    verdict.too_close = cut_is_close(items, 1);
    verdict.allowed = {items[0].token};
    verdict.probability = 1;
    return verdict;
  }
  if (s.top_k > 0 && static_cast<size_t>(s.top_k) < items.size()) {
    verdict.too_close = cut_is_close(items, static_cast<size_t>(s.top_k));
    items.resize(static_cast<size_t>(s.top_k));
  }
  const Real total = weigh(items, s.temperature);
  verdict.too_close |= !cut_top_p(items, total, s.top_p) || !cut_min_p(items, s.min_p);
  draw_slowly(items, random_bits(s.seed, history.size()), verdict);
  return verdict;
}

class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) {}

  int pick(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }
  float uniform() { return static_cast<float>(random_() >> 8) * 0x1p-24F; }

  // Rounds half of the rows to a grid, so that ties are frequent and exact in both arithmetics.
  std::vector<float> row() {
    std::normal_distribution<float> normal(0.0F, 0.2F + 5.0F * uniform());
    const bool grid = pick(2) == 0;
    std::vector<float> row(static_cast<size_t>(1 + pick(400)));
    for (float& logit : row) {
      logit = normal(random_);
      if (grid) logit = std::round(logit * 2.0F) / 2.0F;
      if (pick(50) == 0) logit = -std::numeric_limits<float>::infinity();
    }
    return row;
  }

  SamplingSettings settings(int vocab_size) {
    SamplingSettings s;
    s.temperature = pick(6) == 0 ? 0.0F : 0.05F + 3.0F * uniform();
    s.top_k = pick(2) == 0 ? 0 : pick(vocab_size + 20);
    s.top_p = pick(2) == 0 ? 1.0F : 0.001F + 0.998F * uniform();
    s.min_p = pick(2) == 0 ? 0.0F : uniform() * uniform();
    s.seed = random_();
    if (pick(3) == 0) s.repetition_penalty = 0.5F + 2.0F * uniform();
    if (pick(3) == 0) s.frequency_penalty = 2.0F * uniform() - 1.0F;
    if (pick(3) == 0) s.presence_penalty = 2.0F * uniform() - 1.0F;
    if (pick(4) == 0) s.logit_bias = {{pick(vocab_size), 10.0F * uniform() - 5.0F}};
    if (pick(4) == 0) s.banned_tokens = {pick(vocab_size), pick(vocab_size)};
    return s;
  }

  TokenIds history(int vocab_size) {
    TokenIds tokens(static_cast<size_t>(pick(30)));
    for (TokenId& token : tokens) token = pick(vocab_size);
    return tokens;
  }

  std::vector<uint32_t> mask(int vocab_size) {
    if (pick(4) != 0) return {};
    std::vector<uint32_t> words(static_cast<size_t>(vocab_size / 32 + 1));
    for (uint32_t& word : words) word = static_cast<uint32_t>(random_()) | static_cast<uint32_t>(random_());
    return words;
  }

 private:
  std::mt19937 random_;
};

TEST(SamplerOracle, AgreesOnManyRandomSettings) {
  constexpr int kNumCases = 30000 / testing::stride_if_sanitized(10);
  Cases cases(20240607);
  int num_close = 0;
  int num_dead_ends = 0;
  for (int idx = 0; idx < kNumCases; ++idx) {
    const auto row = cases.row();
    const auto vocab_size = static_cast<int32_t>(row.size());
    const auto settings = cases.settings(vocab_size);
    const auto history = cases.history(vocab_size);
    const auto mask = cases.mask(vocab_size);
    Sampler sampler(vocab_size);
    SamplerState state(settings, vocab_size);
    state.append(history);
    const SampledToken sampled = sampler.sample({.logits = row, .state = &state, .mask = {mask}});
    const Verdict verdict = sample_slowly(row, settings, history, mask);
    if (verdict.too_close) {
      ++num_close;
      continue;
    }
    if (verdict.allowed.empty()) {
      ++num_dead_ends;
      ASSERT_EQ(sampled.fault, SampleFault::nothing_allowed) << "case " << idx;
      continue;
    }
    ASSERT_EQ(sampled.fault, SampleFault::none) << "case " << idx;
    const auto& allowed = verdict.allowed;
    ASSERT_TRUE(std::find(allowed.begin(), allowed.end(), sampled.token) != allowed.end()) << "case " << idx;
    if (allowed.size() == 1) {
      ASSERT_NEAR(static_cast<double>(sampled.probability), static_cast<double>(verdict.probability), 1e-5)
          << "case " << idx;
    }
  }
  EXPECT_LT(num_close, kNumCases / 50);
  EXPECT_LT(num_dead_ends, kNumCases / 50);
}

}  // namespace
}  // namespace quire
