// Handles that are freed at any moment while weights are loading: nothing hangs, and no thread and no byte is
// left behind.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 24;
constexpr auto kPatience = std::chrono::seconds(30);

// Returns the number of threads of the library, by their names. Compute threads belong to a runtime.
int num_threads() {
  int count = 0;
  std::error_code gone;  // a thread may end while it is read
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    count += name.rfind("quire", 0) == 0 ? 1 : 0;
  }
  return count;
}

// Waits for a condition; returns false after kPatience.
bool comes_true(const std::function<bool()>& is_true) {
  const auto end = Clock::now() + kPatience;
  while (!is_true()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Returns the metric of memory that models and caches hold on any device, or "" if they hold none.
std::string held_bytes(quire_runtime* runtime) {
  std::string page(1 << 18, '\0');
  const int64_t size = quire_runtime_metrics(runtime, page.data(), page.size(), nullptr);
  page.resize(static_cast<size_t>(std::max<int64_t>(size, 0)));
  const size_t begin = page.find("\nquire_memory_bytes{");
  return begin == std::string::npos ? "" : page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
}

OwnedModelOptions options_of(const std::string& path) {
  OwnedModelOptions options(quire_model_options_create(nullptr));
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  return options;
}

class ClosingTest : public ::testing::Test {
 protected:
  // Spins for a random time. A sleep is too coarse to hit every step of the other threads.
  void wait_within(Clock::duration longest) {
    std::uniform_int_distribution<Clock::rep> any(0, longest.count());
    const auto end = Clock::now() + Clock::duration(any(random_));
    while (Clock::now() < end) {
    }
  }
  void expect_nothing_left(int64_t handles_before) {
    EXPECT_TRUE(comes_true([] { return num_threads() == 0; })) << num_threads() << " threads are left";
    EXPECT_EQ(num_live_handles(), handles_before);
  }

  std::mt19937_64 random_{20261123};
};

// The load continues with the runtime, or finds that it is closed, or is cancelled.
TEST_F(ClosingTest, ARuntimeMayBeFreedWhileAModelLoads) {
  const int64_t handles = num_live_handles();
  auto longest = Clock::duration::zero();
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    const OwnedModelOptions options = options_of(embedded_model_path());
    const OwnedCancel cancel(quire_cancel_create(nullptr));
    quire_runtime* const runtime = make_runtime().release();
    const auto start = Clock::now();
    std::thread loader([&] {
      Report report;
      const OwnedModel model(
          quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, cancel.get(), report.out()));
      const bool is_refused =
          report.code() == QUIRE_ERROR_BAD_HANDLE || report.code() == QUIRE_ERROR_CANCELLED;
      EXPECT_TRUE(model ? static_cast<bool>(make_cache(model.get())) : is_refused) << report.message();
    });
    if (round == 0) {
      loader.join();
      longest = Clock::now() - start;
    }
    wait_within(longest);
    if (round % 3 == 1) quire_cancel_trigger(cancel.get(), nullptr);
    EXPECT_EQ(quire_runtime_free(runtime, nullptr), 1);
    if (loader.joinable()) loader.join();
  }
  expect_nothing_left(handles);
}

// A job loads the weights, and the model and the cache are freed in the meantime, in either order.
TEST_F(ClosingTest, AModelMayBeFreedWhileItWakes) {
  const int64_t handles = num_live_handles();
  {
    const OwnedRuntime runtime = make_runtime();
    const OwnedModelOptions options = options_of(embedded_model_path());
    ASSERT_EQ(quire_model_options_set_lazy(options.get(), 1, nullptr), 1);
    auto longest = Clock::duration::zero();
    for (int round = 0; round < kRounds && !HasFailure(); ++round) {
      OwnedModel model(quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr));
      ASSERT_TRUE(model);
      OwnedCache cache = make_cache(model.get());
      const OwnedRequest request = make_request("Once", 2);
      OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
      ASSERT_TRUE(job);
      if (round == 0) {
        const auto start = Clock::now();
        EXPECT_EQ(collect(job.get()).tokens.size(), 2U);
        longest = Clock::now() - start;
      }
      wait_within(longest);
      if (round % 4 == 1) {
        EXPECT_EQ(quire_cache_close(cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
      }
      if (round % 2 == 0) model.reset();
      cache.reset();
      model.reset();
      if (round % 3 == 1) {
        const Collected all = collect(job.get());
        EXPECT_TRUE(all.error_code == 0 || all.error_code == QUIRE_ERROR_CLOSED) << all.error_code;
        EXPECT_EQ(all.num_last_events, 1);
      }
    }
    EXPECT_TRUE(comes_true([&] { return held_bytes(runtime.get()).empty(); })) << held_bytes(runtime.get());
  }
  expect_nothing_left(handles);
}

}  // namespace
}  // namespace quire::testing
