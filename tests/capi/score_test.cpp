// Scores and logits: they agree with each other, windows are independent, and the wait can be cancelled.
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class ScoreTest : public ::testing::Test {
 protected:
  ScoreTest() : ids(60) {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 + i * 37 % 150);
  }
  std::vector<float> score(int64_t window, size_t first = 0, size_t count = 60) {
    std::vector<float> out(count);
    EXPECT_EQ(quire_cache_score(world.cache.get(), request_of_tokens(ids.data() + first, count).get(), window,
                                QUIRE_WAIT_FOREVER, nullptr, out.data(), out.size(), report.out()),
              static_cast<int64_t>(count))
        << report.message();
    return out;
  }

  World world;
  Report report;
  std::vector<int32_t> ids;
};

TEST_F(ScoreTest, AgreesWithTheLogits) {
  const auto vocab = static_cast<size_t>(quire_cache_vocab_size(world.cache.get(), nullptr));
  std::vector<float> logits(ids.size() * vocab);
  ASSERT_EQ(quire_cache_logits(world.cache.get(), request_of_tokens(ids.data(), ids.size()).get(),
                               QUIRE_WAIT_FOREVER, nullptr, logits.data(), logits.size(), report.out()),
            static_cast<int64_t>(logits.size()))
      << report.message();
  const std::vector<float> scores = score(0);
  EXPECT_TRUE(std::isnan(scores[0]));
  for (size_t i = 1; i < ids.size(); ++i) {
    const float* const row = &logits[(i - 1) * vocab];
    double sum = 0.0;
    for (size_t v = 0; v < vocab; ++v) sum += std::exp(double{row[v]});
    EXPECT_NEAR(scores[i], row[ids[i]] - std::log(sum), 1e-4) << i;
  }
}

TEST_F(ScoreTest, WindowsAreIndependent) {
  const std::vector<float> windows = score(16);
  for (size_t start = 0; start < ids.size(); start += 16) {
    const size_t count = std::min<size_t>(16, ids.size() - start);
    const std::vector<float> alone = score(0, start, count);
    EXPECT_TRUE(std::isnan(windows[start]));
    for (size_t i = 1; i < count; ++i) EXPECT_EQ(windows[start + i], alone[i]) << start + i;
  }
}

TEST_F(ScoreTest, AJobScoresToo) {
  const OwnedRequest request(quire_job_request_create(nullptr));
  quire_job_request_set_kind(request.get(), QUIRE_JOB_KIND_SCORE, nullptr);
  quire_job_request_set_prompt_tokens(request.get(), ids.data(), ids.size(), nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
  ASSERT_TRUE(job) << report.message();
  EXPECT_EQ(collect(job.get()).finish_reason, QUIRE_FINISH_COMPLETED);
  std::vector<float> scores(ids.size());
  ASSERT_EQ(quire_job_scores(job.get(), scores.data(), scores.size(), nullptr), 60);
  const std::vector<float> expected = score(0);
  EXPECT_TRUE(std::isnan(scores[0]));
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_EQ(scores[i], expected[i]);
  EXPECT_EQ(quire_job_raw_logits(job.get(), nullptr, 0, nullptr), 0);
  EXPECT_EQ(quire_job_embedding(job.get(), nullptr, 0, nullptr), 0);
}

TEST_F(ScoreTest, EdgesOfLength) {
  EXPECT_EQ(quire_cache_score(world.cache.get(), request_of_tokens(nullptr, 0).get(), 0, 0, nullptr, nullptr,
                              0, report.out()),
            0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK);
  EXPECT_TRUE(std::isnan(score(0, 0, 1)[0]));
  EXPECT_TRUE(std::isnan(score(1)[59])) << "windows of one";
  std::vector<int32_t> long_ids(5000, 7);
  std::vector<float> out(long_ids.size());
  EXPECT_EQ(quire_cache_score(world.cache.get(), request_of_tokens(long_ids.data(), long_ids.size()).get(), 0,
                              QUIRE_WAIT_FOREVER, nullptr, out.data(), out.size(), report.out()),
            -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TOO_LARGE) << report.message();
  const int32_t unknown = 160;
  EXPECT_EQ(quire_cache_score(world.cache.get(), request_of_tokens(&unknown, 1).get(), 0, QUIRE_WAIT_FOREVER,
                              nullptr, out.data(), out.size(), report.out()),
            -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
}

TEST_F(ScoreTest, TimeoutAndCancelLeaveNoJob) {
  std::vector<int32_t> long_ids(4000, 7);
  std::vector<float> out(long_ids.size());
  const auto run = [&](int64_t timeout_ns, quire_cancel* cancel) {
    return quire_cache_score(world.cache.get(), request_of_tokens(long_ids.data(), long_ids.size()).get(), 0,
                             timeout_ns, cancel, out.data(), out.size(), report.out());
  };
  EXPECT_EQ(run(0, nullptr), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TIMEOUT) << report.message();
  const OwnedCancel cancel(quire_cancel_create(nullptr));
  std::thread other([&] { quire_cancel_trigger(cancel.get(), nullptr); });
  EXPECT_EQ(run(QUIRE_WAIT_FOREVER, cancel.get()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED) << report.message();
  other.join();
  EXPECT_EQ(run(QUIRE_WAIT_FOREVER, cancel.get()), -1) << "it stays triggered";
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED);
  EXPECT_EQ(score(0).size(), 60u) << "the cache still works";
}

TEST_F(ScoreTest, ATriggeredCancelFailsBeforeAJobIsCreated) {
  const OwnedCancel cancel(quire_cancel_create(nullptr));
  quire_cancel_trigger(cancel.get(), nullptr);
  std::vector<float> out(1000);
  EXPECT_EQ(quire_cache_score(world.cache.get(), request_of_tokens(ids.data(), ids.size()).get(), 1,
                              QUIRE_WAIT_FOREVER, cancel.get(), out.data(), out.size(), report.out()),
            -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED) << report.message();
  EXPECT_EQ(quire_cache_logits(world.cache.get(), request_of_tokens(ids.data(), 1).get(), QUIRE_WAIT_FOREVER,
                               cancel.get(), out.data(), out.size(), report.out()),
            -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED) << report.message();
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  EXPECT_EQ(quire_stats_jobs_submitted(stats.get(), nullptr), 0);
}

TEST_F(ScoreTest, ClosingTheCacheEndsIt) {
  std::vector<int32_t> long_ids(4000, 7);
  std::vector<float> out(long_ids.size());
  std::thread other([&] { quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr); });
  const int64_t size =
      quire_cache_score(world.cache.get(), request_of_tokens(long_ids.data(), long_ids.size()).get(), 0,
                        QUIRE_WAIT_FOREVER, nullptr, out.data(), out.size(), report.out());
  other.join();
  EXPECT_EQ(report.code(), size < 0 ? QUIRE_ERROR_CLOSED : QUIRE_ERROR_OK) << report.message();
}

}  // namespace
}  // namespace quire::testing
