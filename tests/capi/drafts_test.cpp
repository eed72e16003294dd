// Speculative decoding through the C interface: settings, usage, and answers that do not depend on it.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

constexpr std::string_view kRepeating =
    "one two three four, one two three four, one two three four, one two three";

using Counts = std::array<int64_t, 32>;

int64_t sum_of(const Counts& counts, int64_t size) {
  return std::accumulate(counts.begin(), counts.begin() + size, int64_t{0});
}

class DraftsTest : public ::testing::Test {
 protected:
  OwnedCache make_cache(int32_t drafter) const {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_max_tokens(options.get(), 4096, nullptr);
    quire_cache_options_set_drafter(options.get(), drafter, nullptr);
    quire_cache_options_set_max_drafts(options.get(), 8, nullptr);
    return OwnedCache(quire_cache_create(model.get(), options.get(), nullptr));
  }

  static OwnedRequest repeating_request() {
    OwnedRequest request = make_prompt(kRepeating);
    quire_job_request_set_max_new_tokens(request.get(), 64, nullptr);
    quire_job_request_set_temperature(request.get(), 0.0, nullptr);
    return request;
  }

  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get(), embedded_model_path());
};

TEST_F(DraftsTest, AnAnswerDoesNotDependOnThem) {
  const OwnedCache plain = make_cache(QUIRE_DRAFTER_NONE);
  const OwnedCache drafting = make_cache(QUIRE_DRAFTER_NGRAM);
  for (const double temperature : {0.0, 0.7}) {
    const OwnedRequest request = repeating_request();
    quire_job_request_set_temperature(request.get(), temperature, nullptr);
    quire_job_request_set_seed(request.get(), 7, nullptr);
    const OwnedJob expected(quire_job_submit(plain.get(), request.get(), nullptr));
    const OwnedJob job(quire_job_submit(drafting.get(), request.get(), nullptr));
    EXPECT_EQ(collect(job.get()).text, collect(expected.get()).text) << temperature;
    EXPECT_EQ(quire_job_draft_tokens(expected.get(), nullptr), 0);
  }
}

TEST_F(DraftsTest, AreCounted) {
  const OwnedCache cache = make_cache(QUIRE_DRAFTER_NGRAM);
  const OwnedJob job(quire_job_submit(cache.get(), repeating_request().get(), nullptr));
  collect(job.get());
  const int64_t accepted = quire_job_accepted_draft_tokens(job.get(), nullptr);
  EXPECT_GT(accepted, 0);
  EXPECT_GE(quire_job_draft_tokens(job.get(), nullptr), accepted);
  EXPECT_EQ(quire_job_new_tokens(job.get(), nullptr), 64);
  Counts counts{};
  const int64_t size = quire_job_accepted_by_position(job.get(), counts.data(), counts.size(), nullptr);
  ASSERT_EQ(size, 15);
  EXPECT_EQ(sum_of(counts, size), accepted);
  EXPECT_TRUE(std::is_sorted(counts.begin(), counts.begin() + size, std::greater<>()));
  EXPECT_EQ(counts[8], 0) << "max_drafts is 8";
  const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
  EXPECT_EQ(quire_stats_accepted_draft_tokens(stats.get(), nullptr), accepted);
  ASSERT_EQ(quire_stats_accepted_by_position(stats.get(), counts.data(), counts.size(), nullptr), 15);
  EXPECT_EQ(sum_of(counts, size), accepted);
}

TEST_F(DraftsTest, ARequestTurnsThemOff) {
  const OwnedCache cache = make_cache(QUIRE_DRAFTER_NGRAM);
  const OwnedRequest request = repeating_request();
  ASSERT_EQ(quire_job_request_set_max_drafts(request.get(), 0, nullptr), 1);
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
  collect(job.get());
  EXPECT_EQ(quire_job_draft_tokens(job.get(), nullptr), 0);
  EXPECT_EQ(quire_job_accepted_by_position(job.get(), nullptr, 0, nullptr), 0);
}

TEST_F(DraftsTest, ARequestHasNoMoreThanItsCache) {
  const OwnedCache cache = make_cache(QUIRE_DRAFTER_NGRAM);
  const OwnedRequest request = repeating_request();
  ASSERT_EQ(quire_job_request_set_max_drafts(request.get(), 9, nullptr), 1);
  Report report;
  EXPECT_EQ(quire_job_submit(cache.get(), request.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.parameter(), "max_drafts");
}

}  // namespace
}  // namespace quire::testing
