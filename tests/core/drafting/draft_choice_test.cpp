// The number of drafts by cost, compared with a search of all combinations.
#include "core/drafting/draft_choice.h"

#include <array>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

// Returns an offer of drafts that were accepted about as often as `share`, given those before them.
DraftOffer offer(int32_t num_drafts, float share, int32_t num_lanes = 1) {
  DraftAcceptance acceptance(1e-6F);
  std::array<float, static_cast<size_t>(kMaxDrafts)> due{};
  for (int32_t step = 0; step < 500; ++step) {
    int32_t num_accepted = 0;
    for (; num_accepted < kMaxDrafts; ++num_accepted) {
      float& of = due[static_cast<size_t>(num_accepted)];
      of += share;
      if (of < 1.0F) break;
      of -= 1.0F;
    }
    acceptance.observe(num_accepted, true);
  }
  return {num_drafts, num_lanes, acceptance};
}

DraftStep step_of(int32_t num_jobs, std::function<double(int32_t)> time_of) {
  DraftStep step;
  step.num_jobs = step.num_tokens = num_jobs;
  step.max_tokens = 1000;
  step.time_of = std::move(time_of);
  return step;
}

double yield_of(const DraftOffer& of, int32_t num_drafts) {
  double chance = 1.0;
  double yield = 0.0;
  for (int32_t i = 0; i < num_drafts; ++i) yield += chance *= static_cast<double>(of.acceptance.at(i));
  return yield;
}

// Returns the best rate over all numbers of drafts.
double best_rate(gsl::span<const DraftOffer> offers, const DraftStep& step, double yield,
                 int32_t num_tokens) {
  if (num_tokens > step.max_tokens) return 0.0;
  if (offers.empty()) return yield / step.time_of(num_tokens);
  double best = 0.0;
  for (int32_t k = 0; k <= offers.front().num_drafts; ++k) {
    best = std::max(best, best_rate(offers.subspan(1), step, yield + yield_of(offers.front(), k),
                                    num_tokens + k * offers.front().num_lanes));
  }
  return best;
}

TEST(DraftChoiceTest, TheChoiceIsTheBestOfAllCombinations) {
  std::mt19937 random(7);
  const auto uniform = [&] { return std::uniform_real_distribution<float>(0.0F, 1.0F)(random); };
  int32_t num_with_drafts = 0;
  for (int32_t round = 0; round < 500; ++round) {
    std::vector<DraftOffer> offers;
    const int32_t num_jobs = 1 + static_cast<int32_t>(random() % 4);
    for (int32_t i = 0; i < num_jobs; ++i)
      offers.push_back(offer(static_cast<int32_t>(random() % 5), uniform()));
    const double fixed = 10.0 * static_cast<double>(uniform());
    const double tile = static_cast<double>(uniform());
    DraftStep step =
        step_of(num_jobs, [=](int32_t n) { return fixed + 0.3 * n + tile * std::ceil(n / 4.0); });
    step.max_tokens = num_jobs + static_cast<int32_t>(random() % 20);
    DraftChooser chooser;
    std::vector<int32_t> counts(offers.size());
    const double gain = chooser.choose(offers, step, counts);
    const double plain = num_jobs / step.time_of(num_jobs);
    const double best = best_rate(offers, step, num_jobs, num_jobs) / plain;
    double yield = num_jobs;
    int32_t num_tokens = num_jobs;
    for (size_t i = 0; i < offers.size(); ++i) {
      ASSERT_LE(counts[i], offers[i].num_drafts);
      yield += yield_of(offers[i], counts[i]);
      num_tokens += counts[i];
    }
    ASSERT_LE(num_tokens, step.max_tokens);
    ASSERT_NEAR(gain, yield / step.time_of(num_tokens) / plain, 1e-9);
    if (best > DraftChooser::kLeastGain) {
      ASSERT_NEAR(gain, best, 1e-9) << "round " << round;
      ++num_with_drafts;
    } else {
      ASSERT_EQ(num_tokens, num_jobs) << "round " << round;
    }
  }
  EXPECT_GT(num_with_drafts, 100);
}

TEST(DraftChoiceTest, FreeRowsAreAllUsedAndDearOnesAreNot) {
  DraftChooser chooser;
  const std::vector<DraftOffer> offers{offer(4, 0.3F), offer(4, 0.9F)};
  std::vector<int32_t> counts(2);
  chooser.choose(offers, step_of(2, [](int32_t) { return 1.0; }), counts);
  EXPECT_EQ(counts, (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(chooser.choose(offers, step_of(2, [](int32_t n) { return n; }), counts), 1.0);
  EXPECT_EQ(counts, (std::vector<int32_t>{0, 0})) << "a row costs as much as a step of one";
  chooser.choose(offers, step_of(2, [](int32_t n) { return 4.0 + n; }), counts);
  EXPECT_EQ(counts[0], 0);
  EXPECT_GE(counts[1], 2);
}

TEST(DraftChoiceTest, TwoLanesCostTwice) {
  DraftChooser chooser;
  std::vector<int32_t> counts(1);
  DraftStep step = step_of(1, [](int32_t n) { return 2.0 + n; });
  chooser.choose(std::vector<DraftOffer>{offer(1, 0.6F)}, step, counts);
  EXPECT_EQ(counts[0], 1);
  step.num_tokens = 2;
  chooser.choose(std::vector<DraftOffer>{offer(1, 0.45F, 2)}, step, counts);
  EXPECT_EQ(counts[0], 0);
}

TEST(DraftChoiceTest, ADraftThatIsHardlyEverAcceptedIsNotUsedEvenIfItIsFree) {
  DraftChooser chooser;
  std::vector<int32_t> counts(1);
  EXPECT_EQ(chooser.choose(std::vector<DraftOffer>{offer(4, 0.0F)}, step_of(1, [](int32_t) { return 1.0; }),
                           counts),
            1.0);
  EXPECT_EQ(counts[0], 0);
}

}  // namespace
}  // namespace quire
