#include "core/base/thread.h"

#include <atomic>
#include <csignal>
#include <pthread.h>

#include <gtest/gtest.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "tests/support/fault_loop.h"

namespace quire {
namespace {

TEST(Thread, BlocksEverySignalOfTheHost) {
  sigset_t mask;
  sigemptyset(&mask);
  std::atomic<bool> current{false};
  std::unique_ptr<Thread> thread;
  std::atomic<bool> ready{false};
  thread = system_threads().start("quire-test", [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    while (!ready) sched_yield();
    current = thread->is_current();
  });
  ready = true;
  thread->join();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGPIPE})
    EXPECT_EQ(sigismember(&mask, signal), 1);
  EXPECT_TRUE(current);
  EXPECT_FALSE(thread->is_current());
}

TEST(Thread, AStartWithoutMemoryLeaksNothing) {
  std::atomic<int> num_runs{0};
  const int64_t num_points = testing::for_each_fault([&](const testing::FaultPoint& point) {
    const int64_t live_before = testing::num_live_allocations();
    bool failed = false;
    {
      const std::string name = "quire-test";
      const testing::AllocationFault fault(point.nth, point.span);
      try {
        system_threads().start(name, [&] { ++num_runs; });
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      EXPECT_EQ(failed, fault.num_failed() > 0);
    }
    EXPECT_EQ(testing::num_live_allocations(), live_before);
    return failed && !::testing::Test::HasFailure();
  });
  EXPECT_GE(num_points, 4);
  EXPECT_EQ(num_runs, 2) << "runs without a failed allocation";
}

TEST(Clock, WaitsEndByThePredicateOrTheDeadline) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock<std::mutex> lock(mutex);
  const TimePoint soon = steady_clock().now() + std::chrono::milliseconds(1);
  EXPECT_FALSE(steady_clock().wait_until(condition, lock, soon, [] { return false; }));
  EXPECT_TRUE(steady_clock().wait_until(condition, lock, soon, [] { return true; }));
  EXPECT_TRUE(steady_clock().wait_until(condition, lock, TimePoint::max(), [] { return true; }));
}

TEST(Log, ExceptionsOfTheSinkAreIgnored) {
  int lines = 0;
  const Log log(LogLevel::info, [&](LogLevel, std::string_view) {
    ++lines;
    throw 42;
  });
  log(LogLevel::info, "{} pages", 3);
  log(LogLevel::debug, "{}", "too detailed");
  EXPECT_EQ(lines, 1);
  const Log silent;
  silent(LogLevel::error, "nobody listens");
}

}  // namespace
}  // namespace quire
