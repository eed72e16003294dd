// Handles may be freed in any order, by any thread, while others use them.
#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <pthread.h>
#include <thread>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

// Waits for a condition that another thread makes true; returns false after a minute.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

ptrdiff_t num_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// Threads without any engine. This is a constant because threads of an earlier test may still be ending when
// a test begins.
#ifdef QUIRE_SANITIZED_THREADS
constexpr ptrdiff_t kOwnThreads = 2;  // main, and the sanitizer's
#else
constexpr ptrdiff_t kOwnThreads = 1;
#endif

bool no_engine_threads() {
  return num_threads() <= kOwnThreads;
}

enum class JobPhase { live, finished };

class CloseOrderTest : public ::testing::TestWithParam<JobPhase> {};

INSTANTIATE_TEST_SUITE_P(Jobs, CloseOrderTest, ::testing::Values(JobPhase::live, JobPhase::finished),
                         [](const auto& of) { return of.param == JobPhase::live ? "Live" : "Finished"; });

TEST_P(CloseOrderTest, AllTwentyFourLeaveNothing) {
  const int64_t handles = num_live_handles();
  std::array<int, 4> order = {0, 1, 2, 3};
  int num_orders = 0;
  do {
    World world;
    const int32_t num_tokens = GetParam() == JobPhase::live ? 3000 : 3;
    OwnedJob job(quire_job_submit(world.cache.get(), make_request("abc", num_tokens).get(), nullptr));
    ASSERT_TRUE(job);
    if (GetParam() == JobPhase::finished) {
      ASSERT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
    }
    for (const int which : order) {
      if (which == 0) world.runtime.reset();
      if (which == 1) world.model.reset();
      if (which == 2) world.cache.reset();
      if (which == 3) job.reset();
    }
    ++num_orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(num_orders, 24);
  EXPECT_EQ(num_live_handles(), handles);
  EXPECT_TRUE(comes_true(no_engine_threads)) << num_threads() << " threads";
}

TEST(Lifecycle, AJobOutlivesTheHandlesItCameFrom) {
  Collected expected;
  OwnedJob job;
  {
    World world;
    const OwnedRequest request = make_request("Hello", 50);
    const OwnedJob first(quire_job_submit(world.cache.get(), request.get(), nullptr));
    expected = collect(first.get());
    job = OwnedJob(quire_job_submit(world.cache.get(), request.get(), nullptr));
  }
  const Collected collected = collect(job.get());
  EXPECT_EQ(collected.tokens, expected.tokens);
  EXPECT_EQ(collected.text, expected.text);
  EXPECT_EQ(collected.finish_reason, QUIRE_FINISH_LENGTH);
  EXPECT_EQ(quire_job_new_tokens(job.get(), nullptr), 50);
}

TEST(Lifecycle, AnEventOutlivesEverything) {
  OwnedEvent event;
  {
    World world;
    const OwnedJob job(quire_job_submit(world.cache.get(), make_request("Hello", 5).get(), nullptr));
    ASSERT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
    do {
      event = OwnedEvent(next_event(job.get(), 0, nullptr));
    } while (quire_event_type(event.get(), nullptr) != QUIRE_EVENT_TEXT);
  }
  Collected collected;
  add_event(collected, event.get());
  EXPECT_FALSE(collected.tokens.empty());
}

// The last handle of a busy cache is a job. Freeing it passes the end of the engine to another thread.
TEST(Lifecycle, FreeingTheLastJobStopsTheEngine) {
  ASSERT_TRUE(comes_true(no_engine_threads));
  OwnedJob job;
  {
    World world;
    job = OwnedJob(quire_job_submit(world.cache.get(), make_request("abc", 3000).get(), nullptr));
  }
  EXPECT_GT(num_threads(), kOwnThreads);
  job.reset();
  EXPECT_TRUE(comes_true(no_engine_threads));
}

TEST(Lifecycle, AClosedCacheEndsItsJobsAndRefusesNewOnes) {
  World world;
  const OwnedRequest request = make_request("abc", 3000);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
  EXPECT_EQ(quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  EXPECT_EQ(quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1) << "twice is once";
  const Collected collected = collect(job.get());
  EXPECT_EQ(collected.last_type, QUIRE_EVENT_ERROR);
  EXPECT_EQ(collected.error_code, QUIRE_ERROR_CLOSED);
  Report report;
  EXPECT_EQ(quire_job_submit(world.cache.get(), request.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CLOSED) << report.message();
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  EXPECT_EQ(quire_stats_pages_referenced(stats.get(), nullptr), 0);
}

TEST(Lifecycle, TwoRuntimesAreIndependent) {
  World world;
  const OwnedRuntime other = make_runtime();
  const OwnedQueue queue(quire_queue_create(other.get(), nullptr));
  const OwnedRequest request = make_request("abc", 3);
  EXPECT_EQ(quire_job_request_set_queue(request.get(), queue.get(), nullptr), 1);
  Report report;
  EXPECT_EQ(quire_job_submit(world.cache.get(), request.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.message().rfind("queue:", 0), 0u) << report.message();
}

TEST(Lifecycle, LoadAndFreeManyTimes) {
  const int64_t handles = num_live_handles();
  for (int i = 0; i < 50; ++i) {
    World world;
    const OwnedJob job(quire_job_submit(world.cache.get(), make_request("a", 2).get(), nullptr));
    EXPECT_EQ(collect(job.get()).tokens.size(), 2u);
  }
  EXPECT_EQ(num_live_handles(), handles);
}

#ifndef QUIRE_SANITIZED
// For hosts with small stacks: no call needs more stack for a larger input.
TEST(Lifecycle, ASmallStackIsEnough) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 128 << 10), 0);
  const auto body = [](void* tokens) -> void* {
    World world;
    const OwnedJob job(
        quire_job_submit(world.cache.get(), make_request(std::string(500, 'a'), 5).get(), nullptr));
    *static_cast<size_t*>(tokens) = collect(job.get()).tokens.size();
    return nullptr;
  };
  size_t num_tokens = 0;
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, body, &num_tokens), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(num_tokens, 5u);
}
#endif

}  // namespace
}  // namespace quire::testing
