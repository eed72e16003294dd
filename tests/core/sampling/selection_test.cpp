#include "core/sampling/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(std::mt19937& random, size_t size, float grid) {
  std::normal_distribution<float> normal(0.0F, 4.0F);
  std::vector<float> row(size);
  for (float& logit : row) {
    logit = normal(random);
    if (grid > 0.0F) logit = std::round(logit / grid) * grid;
  }
  return row;
}

std::vector<Candidate> sorted(std::vector<Candidate> items) {
  std::stable_sort(items.begin(), items.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  return items;
}

std::vector<Candidate> all_of_row(const std::vector<float>& row) {
  std::vector<Candidate> all;
  const float max_logit = scan_row(row).max_logit;
  for (size_t idx = 0; idx < row.size(); ++idx) {
    all.push_back({row[idx], static_cast<TokenId>(idx), weight_of(share_of(row[idx], max_logit, 1.0F))});
  }
  return all;
}

TEST(Selection, ScanFindsTheMaximumAndEveryBadValue) {
  for (size_t size = 1; size < 70; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::vector<float> row(size, -1.0F);
      row[at] = 5.0F;
      EXPECT_EQ(scan_row(row).max_logit, 5.0F);
      EXPECT_TRUE(scan_row(row).finite);
      EXPECT_EQ(arg_max(row, 5.0F), static_cast<TokenId>(at));
      for (const float bad : {kNan, -kNan, kInf}) {
        row[at] = bad;
        EXPECT_FALSE(scan_row(row).finite) << size << " " << at;
      }
      row[at] = -kInf;
      EXPECT_TRUE(scan_row(row).finite);
    }
  }
}

TEST(Selection, SharesAreTheExponentialToAFewUnitsOfTheLastPlace) {
  EXPECT_EQ(weight_of(share_of(3.0F, 3.0F, 1.0F)), kWeightOne);
  double worst = 0.0;
  for (float x = 0.0F; x > -79.0F; x -= 0.00137F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(share_of(x, 0.0F, 1.0F) - exact) / exact);
  }
  EXPECT_LT(worst, 3e-7);
}

TEST(Selection, AShareBelowTheResolutionHasNoWeight) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(weight_of(share_of(-kInf, 0.0F, 1.0F)), 0U);
  EXPECT_EQ(weight_of(share_of(-kMax, kMax, 100.0F)), 0U);
  EXPECT_EQ(weight_of(share_of(-30.0F, 0.0F, 1.0F)), 0U);
  EXPECT_GT(weight_of(share_of(-27.0F, 0.0F, 1.0F)), 0U);
}

TEST(Selection, ARowWeighsTheSameAsItsTokensOneByOne) {
  std::mt19937 random(1);
  for (const size_t size : {1U, 3U, 4U, 17U, 1000U}) {
    const std::vector<float> row = random_row(random, size, 0.0F);
    std::vector<float> shares(size);
    const float max_logit = scan_row(row).max_logit;
    compute_shares(row, max_logit, 0.7F, shares);
    Weight sum = 0;
    for (size_t idx = 0; idx < size; ++idx) {
      EXPECT_EQ(shares[idx], share_of(row[idx], max_logit, 0.7F));
      sum += weight_of(shares[idx]);
    }
    EXPECT_EQ(sum_weights(shares), sum);
  }
}

TEST(Selection, KthIsThatOfAFullSort) {
  std::mt19937 random(2);
  std::vector<Candidate> front;
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 2000;
    std::vector<float> row = random_row(random, size, round % 2 == 0 ? 0.5F : 0.0F);
    if (round % 5 == 0) std::sort(row.begin(), row.end());
    if (round % 7 == 0) std::fill(row.begin(), row.end(), -kInf);
    const auto order = sorted(all_of_row(row));
    for (const size_t k : {size_t{1}, std::min<size_t>(40, size), 1 + random() % size, size}) {
      const Cutoff cutoff = find_kth(row, k, front);
      EXPECT_EQ(cutoff.token, order[k - 1].token);
      EXPECT_EQ(front.size(), k);
      const auto kept = std::count_if(order.begin(), order.end(),
                                      [&](const Candidate& c) { return cutoff.keeps(c.logit, c.token); });
      EXPECT_EQ(static_cast<size_t>(kept), k);
    }
  }
}

TEST(Selection, NucleusIsThatOfAFullSort) {
  std::mt19937 random(3);
  std::vector<Candidate> scratch;
  for (int round = 0; round < 500; ++round) {
    const auto all = all_of_row(random_row(random, 1 + random() % 500, round % 2 == 0 ? 0.5F : 0.0F));
    const auto order = sorted(all);
    Weight total = 0;
    for (const Candidate& c : all) total += c.weight;
    for (const Weight target : {Weight{1}, kWeightOne, kWeightOne + 1, total / 2 + 1, total}) {
      if (target > total) continue;
      size_t last = 0;
      for (Weight sum = order[0].weight; sum < target; sum += order[last].weight) ++last;
      EXPECT_EQ(find_nucleus(all, target, scratch).token, order[last].token);
    }
    EXPECT_EQ(find_nucleus(all, total + 1, scratch).token, order.back().token);
  }
}

TEST(Selection, ProfileReachesEveryTarget) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const auto row = random_row(random, 1 + random() % 800, round % 2 == 0 ? 0.5F : 0.0F);
    std::vector<float> shares(row.size());
    compute_shares(row, scan_row(row).max_logit, 1.0F, shares);
    const WeightProfile profile(shares);
    ASSERT_EQ(profile.total(), sum_weights(shares));
    for (const Weight target : {Weight{1}, kWeightOne, profile.total() / 2 + 1, profile.total()}) {
      const float least = profile.share_reaching(target);
      Weight reached = 0;
      Weight needless = 0;  // without the lightest band of shares
      for (const float share : shares) {
        reached += share >= least ? weight_of(share) : 0;
        needless += share >= least * 1.5F ? weight_of(share) : 0;
      }
      EXPECT_GE(reached, target);
      EXPECT_LT(needless, target);
    }
  }
}

}  // namespace
}  // namespace quire
