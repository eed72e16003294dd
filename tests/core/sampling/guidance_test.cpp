#include "core/sampling/guidance.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> mixed(std::vector<float> lane, std::vector<float> guide, float scale) {
  std::vector<float> result;
  mix_guided(lane, guide, scale, result);
  return result;
}

std::vector<long double> log_softmax(const std::vector<float>& row) {
  long double sum = 0.0L;
  for (const float logit : row) sum += std::exp(static_cast<long double>(logit));
  std::vector<long double> result;
  for (const float logit : row) result.push_back(static_cast<long double>(logit) - std::log(sum));
  return result;
}

// Allows one rounding to float, of values below 64: 2^-19.
TEST(GuidanceTest, AddsScaleTimesTheDifferenceToTheGuideInLogSoftmax) {
  const std::vector<float> lane{1.5F, -2.0F, 0.25F, 7.0F, -11.0F};
  const std::vector<float> guide{-3.0F, 4.0F, 0.5F, 6.5F, 2.0F};
  const auto positive = log_softmax(lane), negative = log_softmax(guide);
  for (const float scale : {0.0F, 0.5F, 1.0F, 1.5F, 3.0F}) {
    const std::vector<float> result = mixed(lane, guide, scale);
    ASSERT_EQ(result.size(), lane.size());
    for (size_t i = 0; i < lane.size(); ++i) {
      const long double expected =
          negative[i] + static_cast<long double>(scale) * (positive[i] - negative[i]);
      EXPECT_NEAR(result[i], static_cast<double>(expected), 0x1p-19) << "scale " << scale << ", token " << i;
    }
  }
}

TEST(GuidanceTest, ATokenExcludedInEitherRowIsExcluded) {
  const std::vector<float> result =
      mixed({1.0F, -kInfinity, 2.0F, -kInfinity}, {1.0F, 3.0F, -kInfinity, -kInfinity}, 1.5F);
  EXPECT_TRUE(std::isfinite(result[0]));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(result[i], -kInfinity) << i;
}

TEST(GuidanceTest, ARowThatIsNotFiniteMakesTheResultNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float spoilt : {nan, kInfinity}) {
    EXPECT_TRUE(std::isnan(mixed({1.0F, spoilt}, {1.0F, 2.0F}, 1.5F)[0]));
    EXPECT_TRUE(std::isnan(mixed({1.0F, 2.0F}, {spoilt, 2.0F}, 1.5F)[1]));
  }
}

}  // namespace
}  // namespace quire
