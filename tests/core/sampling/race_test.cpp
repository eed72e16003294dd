#include "core/sampling/race.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "core/sampling/random.h"
#include "tests/support/case_stride.h"
#include "tests/support/slow_race.h"

namespace quire {
namespace {

using testing::noise_word;
using testing::slow_exponential;

// Returns Pearson's statistic in standard deviations from its mean, for cells of the expected counts.
double deviation(const std::vector<double>& counts, const std::vector<double>& expected) {
  double statistic = 0.0;
  for (size_t i = 0; i < counts.size(); ++i)
    statistic += (counts[i] - expected[i]) * (counts[i] - expected[i]) / expected[i];
  const auto degrees = static_cast<double>(counts.size() - 1);
  return (statistic - degrees) / std::sqrt(2.0 * degrees);
}

// Every test has fixed seeds, so it never fails by chance. A correct generator exceeds this in one of 10^4.
constexpr double kMaxDeviation = 5.0;

double deviation_from_even(const std::vector<double>& counts, double total) {
  return deviation(counts, std::vector<double>(counts.size(), total / static_cast<double>(counts.size())));
}

TEST(TokenNoise, IsTheNegativeLogarithm) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000000 / testing::stride_if_sanitized(10); ++i) {
    uint64_t word = random();
    // Every magnitude of x and of 1 - x.
    if (i % 3 == 1) word >>= random() % 58;
    if (i % 3 == 2) word = ~(word >> random() % 58);
    const long double exact = slow_exponential(word) * 0x1p58L;
    const auto fixed = static_cast<long double>(kernels::exponential_of(word));
    ASSERT_GE(fixed, static_cast<long double>(word >> 6 | 1)) << word;
    ASSERT_LE(std::abs(fixed - exact), std::max(2.0L, exact * 0x1p-28L)) << word;
  }
}

TEST(TokenNoise, HasFiniteTimesAtBothEnds) {
  EXPECT_EQ(kernels::exponential_of(0), 1U);
  const auto last = static_cast<double>(kernels::exponential_of(~uint64_t{0}));
  EXPECT_NEAR(last * 0x1p-58, 58 * std::log(2.0), 1e-6);
}

// Counts pairs of words by four of their bits each, and compares with equal counts.
void expect_independent(const std::function<std::array<uint64_t, 2>(uint64_t)>& pair) {
  constexpr int kNumPairs = (1 << 18) / testing::stride_if_sanitized(16);
  for (const int shift : {60, 32, 28, 6}) {
    std::vector<double> counts(256);
    for (uint64_t i = 0; i < kNumPairs; ++i) {
      const auto [a, b] = pair(i);
      ++counts[(a >> shift & 15) << 4 | (b >> shift & 15)];
    }
    EXPECT_LT(std::abs(deviation_from_even(counts, kNumPairs)), kMaxDeviation) << "shift " << shift;
  }
}

TEST(TokenNoise, IsIndependentForNeighbouringTokens) {
  for (const uint64_t seed : {uint64_t{0}, ~uint64_t{0}, uint64_t{12345}}) {
    for (const TokenId base : {0, 1000, 151935}) {
      for (const TokenId flip : {1, 2, 3, 16, 256, 4096, 65536, 131072}) {
        SCOPED_TRACE(::testing::Message() << seed << ", token " << base << " and " << (base ^ flip));
        expect_independent([&](uint64_t i) {
          const uint64_t bits = random_bits(seed, i);
          return std::array{noise_word(bits, base), noise_word(bits, base ^ flip)};
        });
      }
    }
  }
}

TEST(TokenNoise, IsIndependentForNeighbouringPositionsAndSeeds) {
  for (const TokenId token : {0, 7, 151935}) {
    SCOPED_TRACE(token);
    expect_independent([&](uint64_t i) {
      return std::array{noise_word(random_bits(3, i), token), noise_word(random_bits(3, i + 1), token)};
    });
    expect_independent([&](uint64_t i) {
      return std::array{noise_word(random_bits(i, 9), token), noise_word(random_bits(i + 1, 9), token)};
    });
    expect_independent([&](uint64_t i) {
      return std::array{noise_word(random_bits(3, i), token), noise_word(random_bits(3, i + 1), token + 1)};
    });
  }
}

// The words of one row, as tokens of one position are compared with each other.
TEST(TokenNoise, IsEvenAndIndependentWithinARow) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    for (const TokenId distance : {1, 2, 64, 1024}) {
      SCOPED_TRACE(::testing::Message() << seed << ", distance " << distance);
      const uint64_t bits = random_bits(seed, ~uint64_t{0});
      expect_independent([&](uint64_t i) {
        const auto token = static_cast<TokenId>(i);
        return std::array{noise_word(bits, token), noise_word(bits, token + distance)};
      });
    }
  }
}

// Returns the first arrival without any shortcut.
TokenId slow_first(const std::vector<float>& shares, uint64_t bits) {
  uint64_t first = kernels::kNoArrival;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto weight = static_cast<float>(weight_of(shares[i]));
    if (weight == 0.0F) continue;
    const auto id = static_cast<uint32_t>(i);
    first = std::min(first, kernels::arrival_key(kernels::arrival_time(bits, id, weight), id));
  }
  return static_cast<TokenId>(first & 0xffffffffU);
}

std::vector<Candidate> candidates_of(const std::vector<float>& shares) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < shares.size(); ++i)
    all.push_back({0.0F, static_cast<TokenId>(i), weight_of(shares[i])});
  return all;
}

std::vector<float> random_shares(std::mt19937_64& random, size_t size) {
  const float spread = std::array{0.0F, 1.0F, 6.0F, 30.0F}[random() % 4];
  std::vector<float> shares(size);
  for (float& share : shares) share = std::exp(-spread * static_cast<float>(random() >> 40) * 0x1p-24F);
  shares[random() % size] = 1.0F;
  return shares;
}

TEST(Race, EqualsTheSlowOneForRowsAndForCandidatesInAnyOrder) {
  std::mt19937_64 random(5);
  for (const size_t size : {1, 2, 127, 128, 129, 255, 256, 1000, 5000}) {
    for (int i = 0; i < 200 / testing::stride_if_sanitized(4); ++i) {
      const std::vector<float> shares = random_shares(random, size);
      const uint64_t bits = i == 0 ? 0 : i == 1 ? ~uint64_t{0} : random();
      const TokenId expected = slow_first(shares, bits);
      ASSERT_EQ(first_to_arrive(shares, bits), expected) << size << " tokens, case " << i;
      std::vector<Candidate> candidates = candidates_of(shares);
      std::shuffle(candidates.begin(), candidates.end(), random);
      ASSERT_EQ(first_to_arrive(candidates, bits).token, expected) << size << " tokens, case " << i;
    }
  }
}

TEST(Race, TheLowerIdWinsATie) {
  EXPECT_LT(kernels::arrival_key(1.5F, 3), kernels::arrival_key(1.5F, 4));
  EXPECT_LT(kernels::arrival_key(1.5F, 4), kernels::arrival_key(std::nextafter(1.5F, 2.0F), 3));
}

TEST(Race, TokensWithoutWeightNeverWin) {
  constexpr float kLeast = 0x1p-40F;
  for (uint64_t position = 0; position < 2000; ++position) {
    const uint64_t bits = random_bits(8, position);
    std::vector<float> shares(300, kLeast * 0.999F);
    shares[position % shares.size()] = kLeast;
    ASSERT_EQ(first_to_arrive(shares, bits), static_cast<TokenId>(position % shares.size()));
    ASSERT_EQ(first_to_arrive(candidates_of(shares), bits).token,
              static_cast<TokenId>(position % shares.size()));
  }
}

std::vector<double> count_draws(const std::vector<float>& shares, uint64_t seed, int num_draws) {
  std::vector<double> counts(shares.size());
  for (int i = 0; i < num_draws; ++i)
    ++counts[static_cast<size_t>(first_to_arrive(shares, random_bits(seed, static_cast<uint64_t>(i))))];
  return counts;
}

TEST(Race, DrawsInProportionToTheWeights) {
  constexpr int kNumDraws = 1000000 / testing::stride_if_sanitized(10);
  const std::vector<float> shares = {1.0F, 0.5F, 0.3F, 0.3F, 0.1F, 0.01F, 0.003F, 0.0003F};
  double total = 0.0;
  for (const float share : shares) total += static_cast<double>(share);
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    std::vector<double> expected;
    for (const float share : shares) expected.push_back(kNumDraws * static_cast<double>(share) / total);
    const double is = deviation(count_draws(shares, seed, kNumDraws), expected);
    EXPECT_LT(is, kMaxDeviation) << "seed " << seed;
    EXPECT_GT(is, -1.8) << "too even to be random, seed " << seed;
  }
}

// 8,000 tokens of a probability of 2^-24 each, beside one that takes nearly all.
TEST(Race, DrawsVeryUnlikelyTokensInProportion) {
  constexpr int kNumDraws = 200000 / testing::stride_if_sanitized(10), kNumCells = 8;
  constexpr size_t kNumRare = 8000;
  std::vector<float> shares(kNumRare + 1, 0x1p-24F);
  shares[0] = 1.0F;
  constexpr double kRare = kNumRare * 0x1p-24;
  const std::vector<double> counts = count_draws(shares, 77, kNumDraws);
  const double num_rare = kNumDraws - counts[0], expected = kNumDraws * kRare / (1.0 + kRare);
  EXPECT_LT(std::abs(num_rare - expected), 4.0 * std::sqrt(expected));
  std::vector<double> cells(kNumCells);
  for (size_t i = 1; i <= kNumRare; ++i) cells[i % kNumCells] += counts[i];
  EXPECT_LT(deviation_from_even(cells, num_rare), kMaxDeviation);
}

TEST(Race, DrawsInProportionFromALargeVocabulary) {
  constexpr size_t kVocabSize = 100000, kNumCells = 50;
  constexpr int kNumDraws = 20000 / testing::stride_if_sanitized(20);
  std::mt19937_64 random(11);
  std::vector<float> shares(kVocabSize);
  for (float& share : shares) share = std::exp(-8.0F * static_cast<float>(random() >> 40) * 0x1p-24F);
  double total = 0.0;
  for (const float share : shares) total += static_cast<double>(share);
  const std::vector<double> counts = count_draws(shares, 0, kNumDraws);
  for (const size_t run : {size_t{1}, kVocabSize / kNumCells}) {  // neighbours in one cell, or in several
    std::vector<double> cells(kNumCells), expected(kNumCells);
    for (size_t i = 0; i < kVocabSize; ++i) {
      cells[i / run % kNumCells] += counts[i];
      expected[i / run % kNumCells] += kNumDraws * static_cast<double>(shares[i]) / total;
    }
    EXPECT_LT(std::abs(deviation(cells, expected)), kMaxDeviation) << "run " << run;
  }
}

TEST(Race, DrawsOfNeighbouringPositionsAreIndependent) {
  constexpr int kNumDraws = 200000 / testing::stride_if_sanitized(10);
  const std::vector<float> shares(8, 1.0F);
  for (const uint64_t seed : {uint64_t{0}, ~uint64_t{0}}) {
    std::vector<double> counts(64);
    TokenId before = 0;
    for (uint64_t position = 0; position < kNumDraws; ++position) {
      const TokenId drawn = first_to_arrive(shares, random_bits(seed, position));
      ++counts[static_cast<size_t>(before * 8 + drawn)];
      before = drawn;
    }
    EXPECT_LT(std::abs(deviation_from_even(counts, kNumDraws)), kMaxDeviation) << "seed " << seed;
  }
}

// Daliri, Musco and Suresh, "Coupling without communication and drafter-invariant speculative decoding"
// (2024): rows with a total variation distance of TV draw the same token with a probability of at least
// (1 - TV) / (1 + TV).
TEST(Race, SimilarRowsMostlyDrawTheSameToken) {
  constexpr int kNumDraws = 4000 / testing::stride_if_sanitized(10);
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  for (const float noise : {0.1F, 0.3F, 1.0F}) {
    int num_equal = 0;
    double bound = 0.0;
    for (uint64_t position = 0; position < kNumDraws; ++position) {
      std::vector<float> a(200), b(200);
      for (size_t i = 0; i < a.size(); ++i) {
        a[i] = 2.0F * normal(random);
        b[i] = a[i] + noise * normal(random);
      }
      double total_a = 0.0, total_b = 0.0;
      for (std::vector<float>* row : {&a, &b}) {
        const float largest = scan_row(*row).max_logit;
        compute_shares(*row, largest, 1.0F, *row);
        for (const float share : *row) (row == &a ? total_a : total_b) += static_cast<double>(share);
      }
      double distance = 0.0;
      for (size_t i = 0; i < a.size(); ++i) distance += std::abs(a[i] / total_a - b[i] / total_b) / 2.0;
      bound += (1.0 - distance) / (1.0 + distance);
      const uint64_t bits = random_bits(4, position);
      num_equal += first_to_arrive(a, bits) == first_to_arrive(b, bits) ? 1 : 0;
    }
    EXPECT_GT(num_equal, bound - 3.0 * std::sqrt(kNumDraws) / 2.0) << "noise " << noise;
  }
}

}  // namespace
}  // namespace quire
