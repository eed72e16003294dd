// Every entry point of the engine at once, from eight threads, on the fake device, for the thread sanitizer.
// Outputs are compared with each job alone. QUIRE_STRESS_SECONDS sets the duration; the default is short.
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/events/event_queue.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kNumThreads = 8;
constexpr auto kLong = std::chrono::minutes(5);  // timeout that is never reached in a correct run

std::chrono::milliseconds stress_time() {
  const char* value = std::getenv("QUIRE_STRESS_SECONDS");
  return value == nullptr ? std::chrono::milliseconds(3000) : std::chrono::seconds(std::atoi(value));
}

class Random {
 public:
  explicit Random(uint32_t seed) : generator_(seed) {}
  int32_t below(int32_t limit) {
    return static_cast<int32_t>(generator_() % static_cast<std::mt19937::result_type>(limit));
  }
  bool chance(int32_t one_in) { return below(one_in) == 0; }

 private:
  std::mt19937 generator_;
};

JobRequest random_job(Random& random) {
  JobRequest request;
  request.sampling.temperature = 0.0F;
  for (int32_t n = 1 + random.below(20); n > 0; --n) request.prompt.push_back(random.below(4));
  request.max_new_tokens = 1 + random.below(40);
  request.slow_reader = static_cast<SlowReaderPolicy>(random.below(3));
  request.max_unread_events = 2 + random.below(8);
  request.priority = random.below(3);
  request.name_space = random.chance(2) ? "" : "tenant";
  request.reserve_whole = random.chance(5);
  if (random.chance(10)) request.total_deadline = std::chrono::milliseconds(1 + random.below(20));
  if (random.chance(8)) request.kind = random.chance(2) ? JobKind::score : JobKind::warm;
  return request;
}

// Does one random operation on a running job. Returns true if the output changes because of it.
bool disturb(Random& random, Engine& cache, Job& job, const JobRequest& request) {
  switch (random.below(10)) {
    case 0:
      job.cancel();
      break;
    case 1:
      job.pause();
      job.resume();
      break;
    case 2:
      if (request.kind == JobKind::generate) {
        EXPECT_EQ(read_all(*job.fork({}), kLong).num_terminal, 1);
      }
      break;
    case 3:
      job.rewind(random.below(request.max_new_tokens));
      return true;
    case 4:
      job.set_priority(random.below(5));
      break;
    case 5:
      cache.query_prefix(request.prompt, request.name_space, Duration{kLong});
      break;
    case 6:
      try {
        cache.unpin(cache.pin_prefix(request.prompt, request.name_space, std::chrono::milliseconds(5),
                                     Duration{kLong}));
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::not_found || error.code() == ErrorCode::quota) << error.what();
      }
      break;
    case 7:
      EXPECT_FALSE(job.explain().empty());
      EXPECT_LE(job.result().new_tokens, request.max_new_tokens);
      break;
    case 8:
      EXPECT_FALSE(cache.metrics_text("stress").empty());
      break;
    default:
      break;
  }
  return false;
}

// Checks that the output of an undisturbed job is the same as alone.
void check_job(const JobRequest& request, Job& job, bool goes_another_way) {
  const Transcript transcript = read_all(job, kLong);
  ASSERT_EQ(transcript.num_terminal, 1);
  ASSERT_EQ(transcript.num_after_terminal, 0);
  if (transcript.terminal.reason != FinishReason::max_new_tokens || goes_another_way) return;
  EXPECT_EQ(transcript.tokens, fake_greedy(request.prompt, request.max_new_tokens, kVocab));
}

void random_call(Random& random, Engine& cache, const std::shared_ptr<EventQueue>& queue) {
  JobRequest request = random_job(random);
  const bool own_reader = !random.chance(3);
  if (!own_reader) request.queue = queue;
  std::vector<std::shared_ptr<Job>> jobs;
  if (random.chance(6)) {
    jobs = cache.submit_many(request, 1 + random.below(4));
  } else {
    jobs.push_back(cache.submit(request));
  }
  if (random.chance(9)) return;  // dropped at once
  const CacheStats stats = cache.stats();
  EXPECT_EQ(stats.pages.free + stats.pages.cached + stats.pages.referenced, stats.pages.total);
  const bool goes_another_way = disturb(random, cache, *jobs.front(), request);
  if (!own_reader) return;
  for (const auto& job : jobs) check_job(request, *job, goes_another_way && job == jobs.front());
}

FakeEngineOptions stress_options() {
  FakeEngineOptions options;
  options.limits.num_pages = 40;
  options.limits.max_sequences = 6;
  make_drawing(options.limits);
  options.cache.watchdog_timeout = kLong;
  options.cache.namespaces = {{"tenant", {4, 20, 30, 0, 0.5}}};
  return options;
}

bool is_refusal(ErrorCode code) {
  return code == ErrorCode::capacity || code == ErrorCode::quota || code == ErrorCode::deadline ||
         code == ErrorCode::too_large || code == ErrorCode::deadline_too_short;
}

TEST(EngineStressTest, AllEntryPointsAtOnce) {
  FakeEngine engine(stress_options());
  const auto queue = std::make_shared<EventQueue>();
  EXPECT_GE(queue->file_descriptor(), 0);
  const auto end = std::chrono::steady_clock::now() + stress_time();
  std::thread drainer([&] {
    while (!queue->closed() || !queue->drain(16, Duration{0}).empty()) queue->drain(16, kLong);
  });
  std::vector<std::thread> threads;
  threads.reserve(kNumThreads);
  for (int32_t i = 0; i < kNumThreads; ++i) {
    threads.emplace_back([&, i] {
      Random random(static_cast<uint32_t>(i));
      while (std::chrono::steady_clock::now() < end) {
        try {
          random_call(random, *engine.cache, queue);
        } catch (const Error& error) {
          EXPECT_TRUE(is_refusal(error.code())) << "thread " << i << ": " << error.what();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  queue->close();
  drainer.join();
  engine.cache->close();
  EXPECT_EQ(engine.cache->thread().queue().num_live(), 0U);
  const CacheStats stats = engine.cache->stats();
  EXPECT_EQ(stats.pages.referenced, 0);
  EXPECT_EQ(stats.submitted_jobs, stats.finished_jobs);
  EXPECT_GT(stats.finished_jobs, 100U);
}

// Closed by two threads at once, after a number of events that varies by round.
TEST(EngineStressTest, CloseAtAnyMomentWakesAllWaiters) {
  for (uint32_t round = 0; round < 60; ++round) {
    FakeEngine engine(stress_options());
    std::atomic<uint32_t> num_events{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        Random random(round * 7 + i);
        try {
          for (;;) {
            JobRequest request = random_job(random);
            request.name_space.clear();
            request.total_deadline = Duration{0};
            request.slow_reader = SlowReaderPolicy::coalesce;
            const auto job = engine.cache->submit(request);
            int32_t num_terminal = 0;
            while (const auto event = job->poll(kLong)) {
              num_terminal += event->terminal() ? 1 : 0;
              ++num_events;
              num_events.notify_all();
            }
            ASSERT_EQ(num_terminal, 1) << "round " << round;
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::closed) << error.what();
        }
      });
    }
    for (uint32_t seen = 0; seen < round * 5; seen = num_events) num_events.wait(seen);
    std::thread second([&] { engine.cache->close(); });
    engine.cache->close();
    second.join();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(engine.cache->thread().queue().num_live(), 0U);
  }
}

TEST(EngineStressTest, AHangingStepIsReportedAndCloseStillReturns) {
  FakeEngineOptions options = stress_options();
  options.cache.watchdog_timeout = std::chrono::milliseconds(30);
  options.cache.close_timeout = std::chrono::milliseconds(50);
  const auto hangs = std::make_shared<std::atomic<bool>>(true);
  const auto left = std::make_shared<std::atomic<bool>>(false);
  {
    FakeEngine engine(options);
    engine.executor->before_step = [hangs, left](const Batch&) {
      hangs->wait(true);
      *left = true;
      left->notify_all();
    };
    JobRequest request;
    request.prompt = {1, 2, 3};
    request.max_new_tokens = 10;
    const auto job = engine.cache->submit(request);
    ASSERT_TRUE(job->wait(kLong));
    EXPECT_EQ(job->result().error, ErrorCode::device_lost);
    EXPECT_THROW(engine.cache->submit(request), Error);
    engine.cache->close();
  }
  *hangs = false;  // the abandoned thread owns all the memory it uses
  hangs->notify_all();
  left->wait(false);
}

}  // namespace
}  // namespace quire::testing
