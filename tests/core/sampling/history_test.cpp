#include "core/sampling/history.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/allocation_faults.h"

namespace quire {
namespace {

using testing::AllocationFault;
using testing::FaultSpan;

constexpr int32_t kVocabSize = 12;

// Computes the penalties by definition, token by token, newest first.
std::vector<double> penalize_slowly(const SamplingSettings& s, const TokenIds& tokens,
                                    std::vector<double> logits) {
  for (TokenId token = 0; token < kVocabSize; ++token) {
    double newest = 0.0;
    double occurrences = 0.0;
    for (size_t age = 0; age < tokens.size(); ++age) {
      if (tokens[tokens.size() - 1 - age] != token) continue;
      double strength = 1.0;
      if (s.penalty_range >= 0 && age >= static_cast<size_t>(s.penalty_range)) {
        const double beyond = static_cast<double>(age) - s.penalty_range;
        strength = s.penalty_decay > 0 ? std::max(0.0, 1.0 - beyond / s.penalty_decay) : 0.0;
      }
      if (occurrences == 0.0) newest = strength;
      occurrences += strength;
    }
    if (occurrences == 0.0) continue;
    double& logit = logits[static_cast<size_t>(token)];
    const double factor = 1.0 + (s.repetition_penalty - 1.0) * newest;
    logit = logit > 0.0 ? logit / factor : logit * factor;
    logit -= s.presence_penalty * newest + s.frequency_penalty * occurrences;
  }
  return logits;
}

std::vector<float> penalise(const TokenHistory& history, std::vector<float> logits) {
  std::vector<bool> seen(logits.size());
  history.penalise(logits, seen);
  EXPECT_EQ(seen, std::vector<bool>(logits.size())) << "scratch must be returned clean";
  return logits;
}

SamplingSettings random_settings(std::mt19937& random) {
  SamplingSettings s;
  const auto pick = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  s.repetition_penalty = pick(3) == 0 ? 1.0F : 0.5F + 0.1F * static_cast<float>(pick(20));
  s.frequency_penalty = 0.25F * static_cast<float>(pick(9) - 4);
  s.presence_penalty = 0.25F * static_cast<float>(pick(9) - 4);
  s.penalty_range = pick(12) - 1;
  s.penalty_decay = pick(2) == 0 ? 0 : pick(10);
  return s;
}

TEST(TokenHistory, MatchesTheDefinitionThroughAppendAndPop) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const SamplingSettings settings = random_settings(random);
    TokenHistory history(settings);
    TokenIds tokens;
    for (int step = 0; step < 40; ++step) {
      if (!tokens.empty() && random() % 3 == 0) {
        history.pop();
        tokens.pop_back();
      } else {
        tokens.push_back(static_cast<TokenId>(random() % kVocabSize));
        history.append(tokens.back());
      }
    }
    std::vector<float> logits;
    for (int idx = 0; idx < kVocabSize; ++idx)
      logits.push_back(static_cast<float>(random() % 100) / 5.0F - 10.0F);
    const auto expected = penalize_slowly(settings, tokens, {logits.begin(), logits.end()});
    const auto actual = penalise(history, logits);
    for (size_t idx = 0; idx < logits.size(); ++idx) {
      ASSERT_NEAR(actual[idx], expected[idx], 1e-4) << "round " << round << " token " << idx;
    }
  }
}

TEST(TokenHistory, DependsOnlyOnItsTokens) {
  std::mt19937 random(8);
  SamplingSettings settings;
  settings.frequency_penalty = 0.5F;
  settings.penalty_range = 5;
  settings.penalty_decay = 3;
  TokenHistory direct(settings);
  TokenHistory wandering(settings);
  for (int idx = 0; idx < 50; ++idx) {
    const auto token = static_cast<TokenId>(random() % kVocabSize);
    for (uint64_t detour = random() % 9; detour > 0; --detour) {
      wandering.append(static_cast<TokenId>(random() % kVocabSize));
      TokenHistory fork = wandering;
      fork.pop();
      wandering = fork;
    }
    direct.append(token);
    wandering.append(token);
  }
  const std::vector<float> logits(kVocabSize, 1.0F);
  EXPECT_EQ(penalise(direct, logits), penalise(wandering, logits));
}

// A commit appends and must not fail; a rewind pops token by token.
TEST(TokenHistory, AllocatesNothingWithinTheReservation) {
  for (const int32_t range : {-1, 0, 1, 5, 100}) {
    SamplingSettings settings;
    settings.repetition_penalty = 1.5F;
    settings.penalty_range = range;
    TokenHistory history(settings);
    history.reserve(40);
    const AllocationFault fault(1, FaultSpan::for_ever);
    for (TokenId token = 0; token < 40; ++token) history.append(token * 1000003 % 65537);
    for (int32_t i = 0; i < 40; ++i) history.pop();
    for (TokenId token = 0; token < 40; ++token) history.append(token);
    EXPECT_EQ(fault.num_failed(), 0) << "range " << range;
  }
}

TEST(TokenHistory, KeepsExtremesFinite) {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  SamplingSettings settings;
  settings.repetition_penalty = 0.01F;
  settings.presence_penalty = -100.0F;
  TokenHistory history(settings);
  for (TokenId token = 0; token < 3; ++token) history.append(token);
  const auto result = penalise(history, {kMax, -kMax, -kInf, 1.0F});
  EXPECT_EQ(result[0], kMax);
  EXPECT_TRUE(std::isfinite(result[1]));
  EXPECT_EQ(result[2], -kInf);
  EXPECT_EQ(result[3], 1.0F);
}

}  // namespace
}  // namespace quire
