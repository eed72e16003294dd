#include <cmath>

#include <gtest/gtest.h>

#include "core/metrics/histogram.h"
#include "core/metrics/prometheus_text.h"

namespace quire {
namespace {

TEST(HistogramTest, AValueGoesIntoTheFirstBucketThatHoldsIt) {
  Histogram histogram(1.0);
  histogram.observe(1.0);
  histogram.observe(1.5);
  histogram.observe(1e30);
  histogram.observe(std::nan(""));
  EXPECT_EQ(histogram.count_in(0), 1U);
  EXPECT_EQ(histogram.count_in(1), 1U);
  EXPECT_EQ(histogram.count_in(Histogram::kNumBuckets - 1), 2U);
  EXPECT_EQ(histogram.count(), 4U);
}

TEST(HistogramTest, AQuantileIsTheBoundOfItsBucket) {
  Histogram histogram(1.0);
  EXPECT_EQ(histogram.quantile(0.5), 0.0);
  for (int i = 0; i < 90; ++i) histogram.observe(0.5);
  for (int i = 0; i < 10; ++i) histogram.observe(7.0);
  EXPECT_EQ(histogram.quantile(0.5), 1.0);
  EXPECT_EQ(histogram.quantile(0.99), 8.0);
}

TEST(PrometheusTextTest, LabelsAreEscapedAndBucketsAddUp) {
  Histogram histogram(1.0);
  histogram.observe(0.5);
  histogram.observe(1.5);
  PrometheusText text("cache", "a\"b\\c\nd");
  text.counter("quire_steps_total", "Steps.", 3);
  text.histogram("quire_wait_seconds", "Waiting.", histogram);
  const std::string page = text.take();
  EXPECT_NE(page.find("quire_steps_total{cache=\"a\\\"b\\\\c\\nd\"} 3\n"), std::string::npos) << page;
  EXPECT_NE(page.find("le=\"1\"} 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("le=\"2\"} 2\n"), std::string::npos) << page;
  EXPECT_NE(page.find("quire_wait_seconds_count{cache=\"a\\\"b\\\\c\\nd\"} 2\n"), std::string::npos) << page;
}

}  // namespace
}  // namespace quire
