#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <limits>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::ThreadPool;

TEST(ThreadPoolTest, EveryThreadWorksOnceAndTheWholeIsShared) {
  for (const int32_t threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> calls(static_cast<size_t>(threads));
      pool.run([&](int32_t thread) { ++calls[static_cast<size_t>(thread)]; });
      EXPECT_EQ(calls, std::vector<int32_t>(static_cast<size_t>(threads), 1));
    }
    for (const int64_t count : {0, 1, 3, 100}) {
      std::vector<int32_t> units(static_cast<size_t>(count));
      pool.share(count, [&](int32_t, int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) ++units[static_cast<size_t>(i)];
      });
      EXPECT_EQ(units, std::vector<int32_t>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(ThreadPoolTest, CallersTakeTurns) {
  ThreadPool pool(3);
  int64_t inside = 0;  // not atomic: only one operation may have the pool
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        pool.run([&](int32_t thread) {
          if (thread == 0) ++inside;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(inside, 4 * 300);
}

TEST(ThreadPoolTest, WorkersBlockSignalsAndHaveAName) {
  ThreadPool pool(3);
  std::atomic<int> sound{0};
  pool.run([&](int32_t thread) {
    if (thread == 0) return;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    const bool blocks = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGPROF) == 1;
    if (blocks && std::strcmp(name, "quire-cpu") == 0) ++sound;
  });
  EXPECT_EQ(sound, 2);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGINT), 0);
}

TEST(ThreadPoolTest, AThreadThatCannotBeStartedEndsTheOthers) {
  std::atomic<int> running{0};
  int started = 0;
  const auto start = [&](std::function<void()> body) {
    if (++started == 3)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return kernels::start_worker_thread([&running, body = std::move(body)] {
      ++running;
      body();
      --running;
    });
  };
  EXPECT_THROW(ThreadPool(5, start), std::system_error);
  EXPECT_EQ(started, 3);
  EXPECT_EQ(running, 0);
}

#if defined(__x86_64__)
// A host that flushes subnormals (a library built with -ffast-math does that to its process) gets the same
// results, and its own setting back.
TEST(ThreadPoolTest, TheCallersFloatingPointModeDoesNotMatter) {
  CpuDevice device("scalar", 1);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  std::vector<float> logits(4, 2.0f * std::numeric_limits<float>::min());
  EXPECT_EQ(device.table().scale_logits(device.context(), logits.data(), 4, 0.25f, 0.0f),
            kernels::Status::ok);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0x8040, 0x8040U);
  EXPECT_EQ(logits[3], 0.5f * std::numeric_limits<float>::min());
}
#endif

}  // namespace
}  // namespace quire::testing
