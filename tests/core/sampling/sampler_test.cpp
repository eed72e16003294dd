#include "core/sampling/sampler.h"

#include <cmath>
#include <gmock/gmock.h>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Returns the logits of rows given as probabilities, as in the examples of the literature.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// Counts how often each token is drawn at num_draws positions of one seed.
std::map<TokenId, int> frequencies(const std::vector<float>& row, SamplingSettings settings, int num_draws) {
  const auto vocab_size = static_cast<int32_t>(row.size());
  Sampler sampler(vocab_size);
  SamplerState state(std::move(settings), vocab_size);
  std::map<TokenId, int> counts;
  for (int draw = 0; draw < num_draws; ++draw) {
    const SampledToken sampled = sampler.sample({.logits = row, .state = &state});
    EXPECT_EQ(sampled.fault, SampleFault::none);
    ++counts[sampled.token];
    state.append(0);
  }
  return counts;
}

std::vector<TokenId> support(const std::vector<float>& row, SamplingSettings settings) {
  std::vector<TokenId> tokens;
  for (const auto& [token, count] : frequencies(row, std::move(settings), 2000)) tokens.push_back(token);
  return tokens;
}

SampledToken sample_once(const std::vector<float>& row, SamplingSettings settings, TokenMask mask = {}) {
  const auto vocab_size = static_cast<int32_t>(row.size());
  Sampler sampler(vocab_size);
  const SamplerState state(std::move(settings), vocab_size);
  return sampler.sample({.logits = row, .state = &state, .mask = mask});
}

// The example of ExLlamaV2: its heap keeps .5 .1 .06 .04 at p = .75; the standard nucleus keeps .5 .3.
TEST(Sampler, TopPIsTheStandardNucleus) {
  const auto row = logits_of({0.5, 0.3, 0.1, 0.06, 0.04});
  EXPECT_EQ(support(row, {.top_p = 0.75F}), (TokenIds{0, 1}));
  EXPECT_EQ(support(row, {.top_p = 0.85F}), (TokenIds{0, 1, 2}));
  EXPECT_EQ(support(row, {.top_p = 1e-30F}), (TokenIds{0}));
  EXPECT_EQ(support(row, {.top_p = 1.0F}), (TokenIds{0, 1, 2, 3, 4}));
  // The mass is relative to the tokens kept by top_k: .5 is .625 of .8.
  EXPECT_EQ(support(row, {.top_k = 2, .top_p = 0.6F}), (TokenIds{0}));
  EXPECT_EQ(support(row, {.top_p = 0.6F}), (TokenIds{0, 1}));
}

TEST(Sampler, TopKBreaksTiesByTheLowerId) {
  const std::vector<float> row{1.0F, 2.0F, 2.0F, 2.0F, 0.0F};
  EXPECT_EQ(support(row, {.top_k = 1}), (TokenIds{1}));
  EXPECT_EQ(support(row, {.top_k = 2}), (TokenIds{1, 2}));
  EXPECT_EQ(support(row, {.top_k = 4}), (TokenIds{0, 1, 2, 3}));
  EXPECT_EQ(support(row, {.top_k = 5}), (TokenIds{0, 1, 2, 3, 4}));
  EXPECT_EQ(support(row, {.top_k = 1000000}), (TokenIds{0, 1, 2, 3, 4}));
}

TEST(Sampler, MinPIsRelativeToTheMostLikely) {
  const auto row = logits_of({0.5, 0.26, 0.1, 0.06, 0.04});
  EXPECT_EQ(support(row, {.min_p = 0.5F}), (TokenIds{0, 1}));
  EXPECT_EQ(support(row, {.min_p = 0.15F}), (TokenIds{0, 1, 2}));
  EXPECT_EQ(support(row, {.min_p = 1.0F}), (TokenIds{0}));
  EXPECT_EQ(support({1.0F, 1.0F, 0.5F}, {.min_p = 1.0F}), (TokenIds{0, 1}));
}

TEST(Sampler, GreedyTakesTheLowestIdOfTheLargest) {
  const std::vector<float> row{1.0F, 3.0F, -kInf, 3.0F};
  for (const float temperature : {0.0F, 1e-45F, 0.0099F}) {
    const SampledToken sampled = sample_once(row, {.temperature = temperature, .top_k = 3, .seed = 99});
    EXPECT_EQ(sampled.token, 1);
    EXPECT_EQ(sampled.probability, 1.0F);
  }
}

TEST(Sampler, GreedyAppliesPenaltiesBiasBansAndMask) {
  const std::vector<float> row{1.0F, 3.0F, 2.0F, 2.5F};
  SamplingSettings greedy{.temperature = 0.0F};
  greedy.logit_bias = {{0, 5.0F}};
  EXPECT_EQ(sample_once(row, greedy).token, 0);
  greedy.banned_tokens = {0};
  EXPECT_EQ(sample_once(row, greedy).token, 1);
  const uint32_t mask = 0b1101;
  EXPECT_EQ(sample_once(row, greedy, {gsl::span<const uint32_t>(&mask, 1)}).token, 3);

  Sampler sampler(4);
  SamplerState state({.temperature = 0.0F, .presence_penalty = 1.0F}, 4);
  state.append(TokenIds{1});
  EXPECT_EQ(sampler.sample({.logits = row, .state = &state}).token, 3);
  const TokenIds banned{3};
  EXPECT_EQ(sampler.sample({.logits = row, .state = &state, .banned = banned}).token, 1);
}

TEST(Sampler, ReportsBadRowsWhateverTheSettings) {
  std::vector<SamplingSettings> all(4);
  all[0].temperature = 0.0F;
  all[1].top_k = 2;
  all[2].top_p = 0.5F;
  all[3].banned_tokens = {0, 1};
  for (const SamplingSettings& settings : all) {
    for (size_t at = 0; at < 5; ++at) {
      for (const float bad : {kNan, kInf}) {
        std::vector<float> row{1.0F, 2.0F, 3.0F, 2.0F, 1.0F};
        row[at] = bad;
        const SampledToken sampled = sample_once(row, settings);
        EXPECT_EQ(sampled.fault, SampleFault::non_finite);
        EXPECT_EQ(sampled.token, -1);
      }
    }
    EXPECT_EQ(sample_once(std::vector<float>(5, -kInf), settings).fault, SampleFault::nothing_allowed);
    EXPECT_EQ(sample_once({-kInf, -kInf, -kInf, 7.0F, -kInf}, settings).token, 3);
  }
}

TEST(Sampler, ReportsThatNothingIsAllowed) {
  const std::vector<float> row{1.0F, 2.0F, -kInf};
  const uint32_t none = 0b100;
  SamplingSettings bans;
  bans.banned_tokens = {0, 1};
  EXPECT_EQ(sample_once(row, {}, {gsl::span<const uint32_t>(&none, 1)}).fault, SampleFault::nothing_allowed);
  EXPECT_EQ(sample_once(row, bans).fault, SampleFault::nothing_allowed);
}

TEST(Sampler, SurvivesExtremeFiniteLogits) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(support({kMax, -kMax, kMax, 0.0F}, {.temperature = 100.0F}), (TokenIds{0, 2}));
  EXPECT_EQ(support({-kMax, -kMax}, {.temperature = 0.01F, .top_p = 0.9F}), (TokenIds{0, 1}));
  SamplingSettings biased;
  biased.logit_bias = {{0, kMax}, {1, -kMax}};
  EXPECT_EQ(support({kMax, -kMax, 1.0F}, biased), (TokenIds{0}));
  EXPECT_EQ(support({42.0F}, {.top_k = 7, .top_p = 0.1F, .min_p = 1.0F}), (TokenIds{0}));
}

TEST(Sampler, DoesNotChangeTheRow) {
  const std::vector<float> row{0.5F, -1.0F, 2.0F, kNan};
  std::vector<float> good(row.begin(), row.end() - 1);
  const std::vector<float> before = good;
  SamplingSettings settings{.top_k = 2, .repetition_penalty = 2.0F};
  settings.banned_tokens = {1};
  Sampler sampler(3);
  SamplerState state(settings, 3);
  state.append(2);
  sampler.sample({.logits = good, .state = &state, .num_top_log_probs = 2});
  EXPECT_EQ(good, before);
}

TEST(Sampler, LogProbsAreThoseOfTheUnchangedRow) {
  const std::vector<double> p{0.1, 0.4, 0.05, 0.4, 0.05};
  const auto row = logits_of(p);
  Sampler sampler(5);
  SamplingSettings settings{.temperature = 0.5F, .top_k = 1};
  settings.banned_tokens = {1, 3};
  const SamplerState state(settings, 5);
  const SampledToken sampled = sampler.sample({.logits = row, .state = &state, .num_top_log_probs = 4});
  EXPECT_EQ(sampled.token, 0);
  EXPECT_EQ(sampled.probability, 1.0F);
  EXPECT_NEAR(sampled.log_prob, std::log(0.1), 1e-6);
  ASSERT_EQ(sampled.top_log_probs.size(), 4U);
  const TokenIds expected{1, 3, 0, 2};
  for (size_t idx = 0; idx < expected.size(); ++idx) {
    EXPECT_EQ(sampled.top_log_probs[idx].token, expected[idx]);
    EXPECT_NEAR(sampled.top_log_probs[idx].log_prob, std::log(p[static_cast<size_t>(expected[idx])]), 1e-6);
  }
  EXPECT_EQ(sampler.sample({.logits = row, .state = &state, .num_top_log_probs = 50}).top_log_probs.size(),
            5U);
  EXPECT_TRUE(sampler.sample({.logits = row, .state = &state, .want_log_prob = true}).top_log_probs.empty());
}

TEST(Sampler, RewindsAndForksDrawTheSame) {
  const std::vector<float> row(1000, 0.0F);
  Sampler sampler(1000);
  SamplerState state({.frequency_penalty = 0.1F, .penalty_range = 3, .seed = 5}, 1000);
  const auto run = [&](SamplerState& from, int count) {
    TokenIds tokens;
    for (int idx = 0; idx < count; ++idx) {
      tokens.push_back(sampler.sample({.logits = row, .state = &from}).token);
      from.append(tokens.back());
    }
    return tokens;
  };
  const TokenIds first = run(state, 20);
  state.rewind(15);
  SamplerState fork = state;
  EXPECT_EQ(run(state, 15), TokenIds(first.begin() + 5, first.end()));
  EXPECT_EQ(run(fork, 15), TokenIds(first.begin() + 5, first.end()));
  fork.rewind(15);
  fork.reseed(6);
  EXPECT_NE(run(fork, 15), TokenIds(first.begin() + 5, first.end()));
  // A text sent again as a prompt is continued as before.
  SamplerState resumed(state.settings(), 1000);
  resumed.append(gsl::span<const TokenId>(first).first(12));
  EXPECT_EQ(run(resumed, 8), TokenIds(first.begin() + 12, first.end()));
}

TEST(Sampler, DoesNotDependOnWhatItSampledBefore) {
  std::vector<float> row(300);
  for (size_t idx = 0; idx < row.size(); ++idx) row[idx] = static_cast<float>(idx % 17) * 0.3F;
  const SamplerState a({.top_k = 20, .seed = 1}, 300);
  SamplerState b(
      {.top_p = 0.9F, .repetition_penalty = 1.5F, .penalty_range = 2, .penalty_decay = 5, .seed = 2}, 300);
  b.append(TokenIds{1, 2, 3, 4, 5, 6, 7});
  Sampler fresh_a(300);
  Sampler fresh_b(300);
  Sampler shared(300);
  const TokenId token_a = fresh_a.sample({.logits = row, .state = &a}).token;
  const TokenId token_b = fresh_b.sample({.logits = row, .state = &b}).token;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(shared.sample({.logits = row, .state = &a}).token, token_a);
    EXPECT_EQ(shared.sample({.logits = row, .state = &b, .num_top_log_probs = 3}).token, token_b);
  }
}

// A seed gives the same tokens in every version and on every machine.
TEST(Sampler, NeverChangesItsDraws) {
  std::vector<float> row(64);
  for (size_t idx = 0; idx < row.size(); ++idx) row[idx] = static_cast<float>((idx * 37) % 64) * 0.0625F;
  const auto draw_eight = [&](SamplingSettings settings) {
    Sampler sampler(64);
    SamplerState state(std::move(settings), 64);
    TokenIds tokens;
    for (int idx = 0; idx < 8; ++idx) {
      tokens.push_back(sampler.sample({.logits = row, .state = &state}).token);
      state.append(tokens.back());
    }
    return tokens;
  };
  EXPECT_EQ(draw_eight({.seed = 1}), (TokenIds{24, 62, 36, 38, 62, 31, 10, 50}));
  EXPECT_EQ(draw_eight({.temperature = 0.5F, .top_p = 0.8F, .seed = 1}),
            (TokenIds{24, 62, 36, 38, 62, 31, 57, 50}));
  EXPECT_EQ(draw_eight({.top_k = 10, .min_p = 0.5F, .repetition_penalty = 1.3F, .seed = 2}),
            (TokenIds{19, 57, 12, 24, 38, 29, 31, 50}));
}

// Compares Pearson's statistic over 8 cells with its 0.999 quantile for 7 degrees of freedom; the seed is
// fixed.
TEST(Sampler, DrawsInProportion) {
  const std::vector<double> p{0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.05, 0.02};
  constexpr int kNumDraws = 200000;
  for (const uint64_t seed : {0U, 1U, 2U}) {
    const auto counts = frequencies(logits_of(p), {.seed = seed}, kNumDraws);
    double statistic = 0.0;
    for (size_t idx = 0; idx < p.size(); ++idx) {
      const double expected = p[idx] * kNumDraws;
      const double difference = counts.at(static_cast<TokenId>(idx)) - expected;
      statistic += difference * difference / expected;
    }
    EXPECT_LT(statistic, 24.32) << "seed " << seed;
    EXPECT_GT(statistic, 0.6) << "too even to be random";
  }
}

TEST(Sampler, RefusesAVocabularyAboveTheLimit) {
  EXPECT_THROW(Sampler(0), Error);
  EXPECT_THROW(Sampler(Sampler::kMaxVocabSize + 1), Error);
  EXPECT_THROW(SamplerState({.temperature = kNan}, 10), Error);
}

}  // namespace
}  // namespace quire
