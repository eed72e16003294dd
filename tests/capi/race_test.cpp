// Two or more threads use one object: each event is returned once, each call returns, and no memory is used
// after it was freed. Meant for the thread sanitizer; the invariants are checked in every build.
#include <atomic>
#include <chrono>
#include <poll.h>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

constexpr int kRounds = 60;

bool is_known_end(int32_t code) {
  return code == QUIRE_ERROR_OK || code == QUIRE_ERROR_BAD_HANDLE;
}

// Polls until the end of the job or of its handle, and counts last events.
void poll_to_the_end(quire_job* job, std::atomic<int>& num_last_events) {
  for (;;) {
    Report report;
    const OwnedEvent event(next_event(job, QUIRE_WAIT_FOREVER, report.out()));
    EXPECT_TRUE(is_known_end(report.code())) << report.message();
    if (!event) return;
    const int32_t type = quire_event_type(event.get(), nullptr);
    if (type == QUIRE_EVENT_FINISHED || type == QUIRE_EVENT_ERROR) ++num_last_events;
  }
}

void pause_briefly(std::mt19937& random) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
}

TEST(Race, TwoReadersAndACancelShareOneLastEvent) {
  World world;
  std::mt19937 random(1);
  const OwnedRequest request = make_request("abc", 3000);
  for (int round = 0; round < kRounds; ++round) {
    const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
    std::atomic<int> num_last_events{0};
    std::thread first(poll_to_the_end, job.get(), std::ref(num_last_events));
    std::thread second(poll_to_the_end, job.get(), std::ref(num_last_events));
    pause_briefly(random);
    EXPECT_EQ(quire_job_cancel(job.get(), nullptr), 1);
    first.join();
    second.join();
    EXPECT_EQ(num_last_events, 1);
    EXPECT_EQ(quire_job_finish_reason(job.get(), nullptr), QUIRE_FINISH_CANCELLED);
  }
}

TEST(Race, FreeingAJobEndsItsReadersAndWaiters) {
  World world;
  std::mt19937 random(2);
  const OwnedRequest request = make_request("abc", 3000);
  for (int round = 0; round < kRounds; ++round) {
    quire_job* const job = quire_job_submit(world.cache.get(), request.get(), nullptr);
    std::atomic<int> num_last_events{0};
    std::atomic<int> num_freed{0};
    const auto free_job = [&] { num_freed += quire_job_free(job, nullptr); };
    std::vector<std::thread> threads;
    threads.emplace_back(poll_to_the_end, job, std::ref(num_last_events));
    threads.emplace_back([&] { quire_job_wait(job, QUIRE_WAIT_FOREVER, nullptr, nullptr); });
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) quire_job_explain(job, nullptr, 0, nullptr);
    });
    pause_briefly(random);
    threads.emplace_back(free_job);
    threads.emplace_back(free_job);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(num_freed, 1) << "one of two frees";
    EXPECT_LE(num_last_events, 1);
  }
}

TEST(Race, ClosingTheCacheEndsItsReaders) {
  for (int round = 0; round < 10; ++round) {
    World world;
    std::mt19937 random(static_cast<unsigned>(round));
    const OwnedJob job(quire_job_submit(world.cache.get(), make_request("abc", 3000).get(), nullptr));
    std::atomic<int> num_last_events{0};
    std::thread reader(poll_to_the_end, job.get(), std::ref(num_last_events));
    pause_briefly(random);
    const auto close = [&] {
      EXPECT_EQ(quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
    };
    std::thread first(close);
    std::thread second(close);
    const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
    EXPECT_TRUE(stats);
    reader.join();
    first.join();
    second.join();
    EXPECT_EQ(num_last_events, 1);
  }
}

// Every thread creates, reads, cancels and drops its own jobs, and all share the runtime, the model and the
// cache.
TEST(Race, ManyThreadsUseOneCache) {
  World world;
  const OwnedRequest reference = make_request("Once upon", 20);
  const OwnedJob alone(quire_job_submit(world.cache.get(), reference.get(), nullptr));
  const Collected expected = collect(alone.get());
  ASSERT_EQ(expected.tokens.size(), 20u);
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 15; ++i) {
      const OwnedJob job(quire_job_submit(world.cache.get(), reference.get(), nullptr));
      ASSERT_TRUE(job);
      switch (random() % 3) {
        case 0:
          quire_job_cancel(job.get(), nullptr);
          EXPECT_EQ(collect(job.get()).num_last_events, 1);
          break;
        case 1:
          break;  // dropped
        default: {
          const Collected collected = collect(job.get());
          EXPECT_EQ(collected.tokens, expected.tokens);
          EXPECT_EQ(collected.text, expected.text);
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (auto& thread : threads) thread.join();
}

TEST(Race, AQueueGivesEachEventOnce) {
  World world;
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  constexpr int kNumJobs = 24;
  std::atomic<int> num_last_events{0};
  std::vector<std::atomic<int>> num_tokens(kNumJobs);
  const auto read = [&] {
    for (;;) {
      Report report;
      int32_t end = 0;
      const OwnedEvent event(next_event(queue.get(), QUIRE_WAIT_FOREVER, report.out(), &end));
      if (!event) {
        EXPECT_EQ(end, QUIRE_WAIT_END) << report.message();
        return;
      }
      Collected collected;
      add_event(collected, event.get());
      num_tokens[quire_event_user_data(event.get(), nullptr)] += static_cast<int>(collected.tokens.size());
      num_last_events += collected.num_last_events;
      if (num_last_events == kNumJobs) quire_queue_close(queue.get(), nullptr);
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) readers.emplace_back(read);
  std::vector<OwnedJob> jobs;
  for (uint64_t i = 0; i < kNumJobs; ++i) {
    const OwnedRequest request = make_request("abc", 10 + static_cast<int32_t>(i));
    quire_job_request_set_user_data(request.get(), i, nullptr);
    quire_job_request_set_queue(request.get(), queue.get(), nullptr);
    jobs.emplace_back(quire_job_submit(world.cache.get(), request.get(), nullptr));
  }
  for (auto& reader : readers) reader.join();
  for (int i = 0; i < kNumJobs; ++i) EXPECT_EQ(num_tokens[static_cast<size_t>(i)], 10 + i);
}

TEST(Race, ClosingOrFreeingAQueueWakesItsReaders) {
  World world;
  for (const bool close : {true, false}) {
    quire_queue* const queue = quire_queue_create(world.runtime.get(), nullptr);
    std::atomic<int> num_closed{0};
    const auto read = [&] {
      Report report;
      int32_t end = 0;
      EXPECT_EQ(next_event(queue, QUIRE_WAIT_FOREVER, report.out(), &end), nullptr);
      num_closed += end == QUIRE_WAIT_END || report.code() == QUIRE_ERROR_BAD_HANDLE ? 1 : 0;
    };
    std::thread first(read);
    std::thread second(read);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(close ? quire_queue_close(queue, nullptr) : 1, 1);
    EXPECT_EQ(quire_queue_free(queue, nullptr), 1);
    first.join();
    second.join();
    EXPECT_EQ(num_closed, 2);
  }
}

TEST(Race, TheDescriptorOfAQueueIsReadableWhileThereAreEvents) {
  World world;
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  const int32_t fd = quire_queue_fd(queue.get(), nullptr);
  ASSERT_GE(fd, 0);
  const auto is_readable = [&](int timeout_ms) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
  };
  EXPECT_FALSE(is_readable(0));
  const OwnedRequest request = make_request("abc", 5);
  quire_job_request_set_queue(request.get(), queue.get(), nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
  Collected collected;
  while (collected.num_last_events == 0) {
    ASSERT_TRUE(is_readable(60000));
    while (quire_event* const event = next_event(queue.get(), 0, nullptr)) {
      add_event(collected, event);
      quire_event_free(event, nullptr);
    }
  }
  EXPECT_EQ(collected.tokens.size(), 5u);
  EXPECT_FALSE(is_readable(0)) << "all taken";
  quire_queue_close(queue.get(), nullptr);
  EXPECT_TRUE(is_readable(0)) << "closed";
}

}  // namespace
}  // namespace quire::testing
