#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <latch>
#include <limits>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::StartThread;
using kernels::ThreadPool;

// Returns the pieces of an operation that were worked on, in order.
std::vector<std::pair<int64_t, int64_t>> pieces_of(ThreadPool& pool, int64_t count, int64_t piece) {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> pieces;
  pool.share(count, piece, [&](int32_t, int64_t first, int64_t last) {
    const std::lock_guard<std::mutex> lock(mutex);
    pieces.emplace_back(first, last);
  });
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

// Workers that begin to look for work when the test calls arrive().
class LateWorkers {
 public:
  StartThread start() {
    return [this](std::function<void()> body) {
      return std::thread([this, body = std::move(body)] {
        arrival_.wait();
        body();
      });
    };
  }
  void arrive() { arrival_.count_down(); }

 private:
  std::latch arrival_{1};
};

TEST(ThreadPoolTest, EveryUnitIsProcessedOnce) {
  for (const int32_t threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      for (const int64_t count : {0, 1, 3, 100}) {
        std::vector<int32_t> units(static_cast<size_t>(count));
        pool.share(count, 1 + round % 5, [&](int32_t, int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) ++units[static_cast<size_t>(i)];
        });
        ASSERT_EQ(units, std::vector<int32_t>(static_cast<size_t>(count), 1)) << threads << " threads";
      }
    }
  }
}

TEST(ThreadPoolTest, PiecesDoNotDependOnTheNumberOfThreads) {
  ThreadPool alone(1);
  const std::vector<std::pair<int64_t, int64_t>> of_seven = {{0, 3}, {3, 6}, {6, 7}};
  EXPECT_EQ(pieces_of(alone, 7, 3), of_seven);
  for (const int32_t threads : {2, 3, 8, 40}) {
    ThreadPool pool(threads);
    for (const int64_t count : {1, 7, 4096, 1'000'000}) {
      EXPECT_EQ(pieces_of(pool, count, 3), pieces_of(alone, count, 3)) << threads << " threads, " << count;
    }
  }
}

TEST(ThreadPoolTest, ConcurrentCallersRunOneAtATime) {
  ThreadPool pool(3);
  int64_t operations = 0;  // not atomic: only one operation at a time may use the pool
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        pool.share(5, 1, [&](int32_t, int64_t first, int64_t) {
          if (first == 0) ++operations;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(operations, 4 * 300);
}

TEST(ThreadPoolTest, AnOperationDoesNotWaitForThreadsThatDoNotRun) {
  LateWorkers late;
  ThreadPool pool(4, late.start());
  for (int operation = 0; operation < 3; ++operation) {
    std::vector<int32_t> workers;  // worker of each piece; only the caller is running
    pool.share(100, 1, [&](int32_t thread, int64_t, int64_t) { workers.push_back(thread); });
    EXPECT_EQ(workers, std::vector<int32_t>(100, 0));
  }
  late.arrive();
}

TEST(ThreadPoolTest, AStalledThreadDelaysOnlyItsClaimedPiece) {
  constexpr int64_t kPieces = 50;
  ThreadPool pool(2);
  std::latch claimed(1);
  std::latch others_done(kPieces - 1);
  std::atomic<int64_t> by_worker{0};
  pool.share(kPieces, 1, [&](int32_t thread, int64_t, int64_t) {
    if (thread == 0) {
      claimed.wait();  // wait until the worker has claimed its piece
    } else {
      ++by_worker;
      claimed.count_down();
      others_done.wait();  // ends only if the caller does all the rest, the worker's lane included
    }
    if (thread == 0) others_done.count_down();
  });
  EXPECT_EQ(by_worker, 1);
}

// Each operation lives on the caller's stack. Workers that start in the middle of a run of operations find
// the current one or none; a claim in an operation that has ended would use freed memory.
TEST(ThreadPoolTest, ThreadsMayStartBetweenOperations) {
  for (int round = 0; round < 20; ++round) {
    LateWorkers late;
    ThreadPool pool(5, late.start());
    for (int operation = 0; operation < 200; ++operation) {
      if (operation == 3 * round) late.arrive();
      std::vector<int32_t> units(static_cast<size_t>(1 + operation % 37));
      pool.share(static_cast<int64_t>(units.size()), 1, [&units](int32_t, int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) ++units[static_cast<size_t>(i)];
      });
      ASSERT_EQ(units, std::vector<int32_t>(units.size(), 1)) << "round " << round << ", " << operation;
    }
  }
}

TEST(ThreadPoolTest, WorkersBlockSignalsAndHaveAName) {
  ThreadPool pool(3);
  std::latch all_here(3);
  std::atomic<int> sound{0};
  pool.share(3, 1, [&](int32_t thread, int64_t, int64_t) {
    all_here.arrive_and_wait();  // so that each thread has one piece
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

TEST(ThreadPoolTest, AThreadThatFailsToStartEndsTheOthers) {
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
// A host that flushes subnormals (a library built with -ffast-math sets that in its process) gets the same
// results, and its setting is restored.
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
