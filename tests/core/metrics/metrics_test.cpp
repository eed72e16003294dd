#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/metrics/histogram.h"
#include "core/metrics/prometheus_text.h"

namespace quire {
namespace {

constexpr std::array<double, 4> kBounds = {1.0, 2.0, 4.0, 8.0};

TEST(HistogramTest, AValueGoesIntoTheFirstBucketThatHoldsIt) {
  Histogram histogram(kBounds);
  for (const double value : {-1.0, 0.0, 1.0, 1.5, 2.0, 8.0, 8.1, 1e300}) histogram.observe(value);
  const uint64_t expected[] = {3, 2, 0, 1, 2};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(histogram.count_in(i), expected[i]) << i;
  EXPECT_EQ(histogram.count(), 8U);
}

TEST(HistogramTest, NaNIsCountedAndAddsNothing) {
  Histogram histogram(kBounds);
  histogram.observe(3.0);
  histogram.observe(std::nan(""));
  histogram.observe(std::numeric_limits<double>::infinity());
  histogram.observe(-std::numeric_limits<double>::infinity());
  EXPECT_EQ(histogram.count(), 4U);
  EXPECT_EQ(histogram.count_in(4), 2U);
  EXPECT_EQ(histogram.sum(), 3.0);
}

TEST(HistogramTest, AQuantileIsTheBoundOfItsBucket) {
  Histogram histogram(kBounds);
  EXPECT_EQ(histogram.quantile(0.5), 0.0) << "no values";
  for (int i = 0; i < 90; ++i) histogram.observe(0.5);
  for (int i = 0; i < 9; ++i) histogram.observe(7.0);
  histogram.observe(100.0);
  EXPECT_EQ(histogram.quantile(0.0), 1.0);
  EXPECT_EQ(histogram.quantile(0.5), 1.0);
  EXPECT_EQ(histogram.quantile(0.9), 1.0);
  EXPECT_EQ(histogram.quantile(0.91), 8.0);
  EXPECT_EQ(histogram.quantile(1.0), 8.0) << "the open bucket has no bound of its own";
}

TEST(HistogramTest, TheTablesOfBoundsAscendAndFit) {
  for (const HistogramBounds bounds :
       {long_time_bounds(), short_time_bounds(), count_bounds(), share_bounds()}) {
    ASSERT_LT(bounds.size(), Histogram::kMaxBuckets);
    for (size_t i = 1; i < bounds.size(); ++i) EXPECT_LT(bounds[i - 1], bounds[i]);
    const Histogram histogram(bounds);
    EXPECT_EQ(histogram.count(), 0U);
  }
  EXPECT_EQ(share_bounds()[share_bounds().size() - 1], 1.0);
}

TEST(PrometheusTextTest, LabelsAreEscaped) {
  EXPECT_EQ(prometheus_label("cache", "a\"b\\c\nd"), "cache=\"a\\\"b\\\\c\\nd\"");
  EXPECT_EQ(prometheus_label("cache", ""), "cache=\"\"");
}

TEST(PrometheusTextTest, AFamilyIsOpenedOnceAndFilled) {
  PrometheusText text;
  text.open("quire_steps_total", "Steps.", "counter");
  text.sample("cache=\"a\"", uint64_t{3});
  text.sample("cache=\"b\"", std::numeric_limits<uint64_t>::max());
  text.open("quire_fill", "Fill.", "gauge");
  text.sample("cache=\"a\"", 0.25);
  EXPECT_EQ(text.take(),
            "# HELP quire_steps_total Steps.\n# TYPE quire_steps_total counter\n"
            "quire_steps_total{cache=\"a\"} 3\nquire_steps_total{cache=\"b\"} 18446744073709551615\n"
            "# HELP quire_fill Fill.\n# TYPE quire_fill gauge\nquire_fill{cache=\"a\"} 0.25\n");
}

TEST(PrometheusTextTest, ValuesOfAListAreLabelledWithTheirIndex) {
  PrometheusText text;
  text.open("quire_bytes", "Bytes.", "gauge");
  text.samples("cache=\"a\"", "shard", std::vector<uint64_t>{7, 9});
  EXPECT_EQ(text.take(),
            "# HELP quire_bytes Bytes.\n# TYPE quire_bytes gauge\n"
            "quire_bytes{cache=\"a\",shard=\"0\"} 7\nquire_bytes{cache=\"a\",shard=\"1\"} 9\n");
}

TEST(PrometheusTextTest, BucketsAddUp) {
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.5, 1.5, 100.0}) histogram.observe(value);
  PrometheusText text;
  text.open("quire_wait_seconds", "Waiting.", "histogram");
  text.sample("cache=\"a\"", histogram);
  EXPECT_EQ(text.take(),
            "# HELP quire_wait_seconds Waiting.\n# TYPE quire_wait_seconds histogram\n"
            "quire_wait_seconds_bucket{cache=\"a\",le=\"1\"} 1\n"
            "quire_wait_seconds_bucket{cache=\"a\",le=\"2\"} 3\n"
            "quire_wait_seconds_bucket{cache=\"a\",le=\"4\"} 3\n"
            "quire_wait_seconds_bucket{cache=\"a\",le=\"8\"} 3\n"
            "quire_wait_seconds_bucket{cache=\"a\",le=\"+Inf\"} 4\n"
            "quire_wait_seconds_sum{cache=\"a\"} 103.5\n"
            "quire_wait_seconds_count{cache=\"a\"} 4\n");
}

}  // namespace
}  // namespace quire
