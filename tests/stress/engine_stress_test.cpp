// Every entry point of the engine at once, from several threads, for the thread sanitizer to watch.
// QUIRE_STRESS_SECONDS sets how long; the default is short.
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/event_queue.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumThreads = 8;
constexpr int32_t kVocab = 64;

std::chrono::milliseconds stress_time() {
  const char* value = std::getenv("QUIRE_STRESS_SECONDS");
  return value == nullptr ? std::chrono::milliseconds(1500) : std::chrono::seconds(std::atoi(value));
}

JobRequest random_job(std::mt19937& random) {
  JobRequest request;
  request.sampling.temperature = 0.0F;
  for (uint32_t n = 1 + random() % 20; n > 0; --n)
    request.prompt.push_back(static_cast<TokenId>(random() % 4));
  request.max_new_tokens = static_cast<int32_t>(1 + random() % 40);
  request.slow_reader = static_cast<SlowReaderPolicy>(random() % 3);
  request.max_unread_events = static_cast<int32_t>(2 + random() % 8);
  request.priority = static_cast<int32_t>(random() % 3);
  return request;
}

// What came of a job that ran to its end is what it says alone.
void check_job(const JobRequest& request, Job& job) {
  const Transcript transcript = read_all(job, std::chrono::seconds(60));
  ASSERT_EQ(transcript.num_terminal, 1);
  ASSERT_EQ(transcript.num_after_terminal, 0);
  if (transcript.terminal.reason != FinishReason::max_new_tokens) return;
  EXPECT_EQ(transcript.tokens, fake_greedy(request.prompt, request.max_new_tokens, kVocab));
}

void random_call(std::mt19937& random, Cache& cache, const std::shared_ptr<EventQueue>& queue) {
  JobRequest request = random_job(random);
  const bool own_reader = random() % 3 != 0;
  if (!own_reader) request.queue = queue;
  const std::shared_ptr<Job> job = cache.submit(request);
  switch (random() % 9) {
    case 0:
      job->cancel();
      break;
    case 1:
      return;  // dropped at once
    case 2:
      job->pause();
      job->resume();
      break;
    case 3: {
      const auto child = job->fork({});
      child->wait(std::chrono::seconds(60));
      break;
    }
    case 4:
      job->set_priority(2);
      break;
    case 5:
      cache.query_prefix(request.prompt, "", std::chrono::seconds(60));
      break;
    case 6:
      try {
        cache.unpin(
            cache.pin_prefix(request.prompt, "", std::chrono::milliseconds(5), std::chrono::seconds(60)));
      } catch (const Error&) {  // nothing cached, or the quota
      }
      break;
    case 7:
      EXPECT_FALSE(job->explain().empty());
      break;
    default:
      break;
  }
  EXPECT_EQ(cache.stats().pages.total, cache.limits().num_pages);
  if (own_reader) check_job(request, *job);
}

FakeEngineOptions stress_options() {
  FakeEngineOptions options;
  options.limits.num_pages = 40;
  options.limits.max_sequences = 6;
  options.cache.watchdog_timeout = std::chrono::seconds(60);
  return options;
}

TEST(EngineStressTest, AllEntryPointsAtOnce) {
  FakeEngine engine(stress_options());
  const auto queue = std::make_shared<EventQueue>();
  const auto end = std::chrono::steady_clock::now() + stress_time();
  std::atomic<bool> over{false};
  std::thread drainer([&] {
    while (!over) queue->drain(16, std::chrono::milliseconds(10));
  });
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < kNumThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<uint32_t>(i));
      while (std::chrono::steady_clock::now() < end) {
        try {
          random_call(random, *engine.cache, queue);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::capacity) << error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  over = true;
  drainer.join();
  engine.cache->close();
  EXPECT_EQ(engine.cache->core().queue().num_live(), 0U);
  EXPECT_EQ(engine.cache->stats().pages.referenced, 0);
}

TEST(EngineStressTest, CloseAtAnyMomentWakesEverybody) {
  for (uint32_t round = 0; round < 60; ++round) {
    FakeEngine engine(stress_options());
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937 random(round * 7 + static_cast<uint32_t>(i));
        try {
          for (;;) {
            JobRequest request = random_job(random);
            request.slow_reader = SlowReaderPolicy::coalesce;
            const auto job = engine.cache->submit(request);
            const Transcript transcript = read_all(*job, std::chrono::seconds(60));
            ASSERT_EQ(transcript.num_terminal, 1);
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::closed) << error.what();
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (round % 20)));
    std::thread second([&] { engine.cache->close(); });
    engine.cache->close();
    second.join();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(engine.cache->core().queue().num_live(), 0U);
  }
}

TEST(EngineStressTest, AStepThatHangsIsNoticedAndCloseStillReturns) {
  FakeEngineOptions options = stress_options();
  options.cache.watchdog_timeout = std::chrono::milliseconds(30);
  options.cache.close_timeout = std::chrono::milliseconds(50);
  auto hang = std::make_shared<std::atomic<bool>>(true);
  auto left = std::make_shared<std::atomic<bool>>(false);
  {
    FakeEngine engine(options);
    engine.executor->before_step = [hang, left](const Batch&) {
      while (*hang) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      *left = true;
    };
    std::mt19937 random(1);
    const auto job = engine.cache->submit(random_job(random));
    ASSERT_TRUE(job->wait(std::chrono::seconds(60)));
    EXPECT_EQ(job->result().error, ErrorCode::device_lost);
    EXPECT_THROW(engine.cache->submit(random_job(random)), Error);
    engine.cache->close();
  }
  *hang = false;  // the thread left behind owns all it touches
  while (!*left) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// One reader takes one event and sleeps; the others must not notice.
TEST(EngineStressTest, ASlowReaderSlowsNobody) {
  for (const SlowReaderPolicy policy :
       {SlowReaderPolicy::coalesce, SlowReaderPolicy::pause, SlowReaderPolicy::end}) {
    FakeEngineOptions options = stress_options();
    options.limits = {64, 8, 64, 64, 256, 4, kVocab};
    options.cache.start_thread = false;
    FakeEngine engine(options);
    JobRequest slow;
    slow.prompt = {1, 2, 3};
    slow.max_new_tokens = 100;
    slow.slow_reader = policy;
    slow.max_unread_events = 4;
    const auto unread = engine.cache->submit(slow);
    JobRequest fast = slow;
    fast.slow_reader = SlowReaderPolicy::coalesce;
    std::vector<std::shared_ptr<Job>> others;
    for (int32_t i = 0; i < 7; ++i) {
      fast.prompt = {10 + i};
      others.push_back(engine.cache->submit(fast));
    }
    // The prompt's step brings the first token: as many steps as tokens, whatever the slow one does.
    int32_t steps = 0;
    while (!others[0]->wait(Duration{0}) && steps < 1000) {
      engine.cache->core().run_once();
      ++steps;
    }
    EXPECT_LE(steps, 101);
    for (const auto& job : others) EXPECT_TRUE(job->wait(Duration{0}));
  }
}

}  // namespace
}  // namespace quire::testing
