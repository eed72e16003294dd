// Aliases: the cache of a name is exchanged while jobs run.
#include <atomic>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

OwnedAlias make_alias(quire_runtime* runtime, std::string_view name = "chat") {
  return OwnedAlias(quire_alias_create(runtime, name.data(), name.size(), nullptr));
}

std::string reason_of(quire_alias* alias) {
  char text[512];
  const int64_t length = quire_alias_reason(alias, text, sizeof text, nullptr);
  return {text, static_cast<size_t>(std::max<int64_t>(length, 0))};
}

class AliasTest : public ::testing::Test {
 protected:
  Collected run(const OwnedRequest& request) {
    const OwnedJob job(quire_alias_submit(alias.get(), request.get(), report.out()));
    return job ? collect(job.get()) : Collected{};
  }
  bool set(const OwnedCache& cache) {
    return quire_alias_set_cache(alias.get(), cache.get(), report.out()) == 1;
  }
  // Returns true if models or caches of the runtime hold memory.
  bool holds_memory() const {
    std::string page(1 << 18, '\0');
    const int64_t size = quire_runtime_metrics(world.runtime.get(), page.data(), page.size(), nullptr);
    EXPECT_GE(size, 0);
    return page.find("\nquire_memory_bytes{") != std::string::npos;
  }

  World world;
  OwnedAlias alias = make_alias(world.runtime.get());
  Report report;
};

TEST_F(AliasTest, SubmitsJobsToItsCache) {
  const OwnedRequest request = make_request("Hello", 20);
  const OwnedJob direct(quire_job_submit(world.cache.get(), request.get(), nullptr));
  ASSERT_TRUE(set(world.cache)) << report.message();
  EXPECT_EQ(run(request).tokens, collect(direct.get()).tokens);
  EXPECT_EQ(quire_alias_num_swaps(alias.get(), nullptr), 0);
  EXPECT_EQ(quire_alias_num_fallbacks(alias.get(), nullptr), 0);
  EXPECT_EQ(reason_of(alias.get()), "");
}

TEST_F(AliasTest, WithoutACacheFailsByName) {
  EXPECT_EQ(quire_alias_submit(alias.get(), make_request("Hello", 1).get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  EXPECT_EQ(report.message(), "alias: \"chat\" has no cache; set one first");
  ASSERT_TRUE(set(world.cache));
  EXPECT_EQ(quire_alias_set_cache(alias.get(), nullptr, nullptr), 1);
  EXPECT_EQ(quire_alias_submit(alias.get(), make_request("Hello", 1).get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
}

TEST_F(AliasTest, NeedsAName) {
  EXPECT_FALSE(make_alias(world.runtime.get(), ""));
  EXPECT_FALSE(make_alias(world.runtime.get(), std::string(257, 'n')));
  EXPECT_FALSE(make_alias(world.runtime.get(), "\xff"));
}

TEST_F(AliasTest, IsUnchangedIfTheNewCacheIsRefused) {
  ASSERT_TRUE(set(world.cache));
  const World other;
  EXPECT_FALSE(set(other.cache));
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << "of another runtime";
  const OwnedCache closed = make_cache(world.model.get());
  quire_cache_close(closed.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
  EXPECT_FALSE(set(closed));
  EXPECT_EQ(report.code(), QUIRE_ERROR_CLOSED);
  EXPECT_EQ(quire_alias_add_fallback(alias.get(), closed.get(), nullptr), 0);
  EXPECT_EQ(run(make_request("Hello", 5)).tokens.size(), 5U);
}

TEST_F(AliasTest, KeepsItsCacheAlive) {
  ASSERT_TRUE(set(world.cache));
  world.cache.reset();
  EXPECT_EQ(run(make_request("Hello", 5)).tokens.size(), 5U);
}

TEST_F(AliasTest, FallsBackInOrderAndReportsWhy) {
  const OwnedCache second = make_cache(world.model.get());
  const OwnedCache third = make_cache(world.model.get());
  ASSERT_TRUE(set(world.cache));
  ASSERT_EQ(quire_alias_add_fallback(alias.get(), second.get(), nullptr), 1);
  ASSERT_EQ(quire_alias_add_fallback(alias.get(), third.get(), nullptr), 1);
  quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
  quire_cache_close(second.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
  EXPECT_EQ(run(make_request("Hello", 5)).tokens.size(), 5U);
  EXPECT_EQ(reason_of(alias.get()), "the cache was closed");
  EXPECT_EQ(quire_alias_num_fallbacks(alias.get(), nullptr), 1);
  EXPECT_EQ(quire_alias_clear_fallbacks(alias.get(), nullptr), 1);
  EXPECT_EQ(quire_alias_submit(alias.get(), make_request("Hello", 1).get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CLOSED);
}

TEST_F(AliasTest, ARequestThatNoCacheTakesIsRefusedAtOnce) {
  const OwnedCache second = make_cache(world.model.get());
  ASSERT_TRUE(set(world.cache));
  ASSERT_EQ(quire_alias_add_fallback(alias.get(), second.get(), nullptr), 1);
  const OwnedRequest empty(quire_job_request_create(nullptr));
  EXPECT_EQ(quire_alias_submit(alias.get(), empty.get(), report.out()), nullptr);
  EXPECT_EQ(quire_alias_num_fallbacks(alias.get(), nullptr), 0);
}

TEST_F(AliasTest, AllowsAsManyFallbacksAsTheHeaderDeclares) {
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(quire_alias_add_fallback(alias.get(), world.cache.get(), nullptr), 1);
  EXPECT_EQ(quire_alias_add_fallback(alias.get(), world.cache.get(), report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CAPACITY);
}

int num_swaps_to_do() {
  const char* const value = std::getenv("QUIRE_ALIAS_SWAPS");
  if (value != nullptr) return std::atoi(value);
#ifdef QUIRE_SANITIZED
  return 40;
#else
  return 1000;
#endif
}

// Each swap loads the model again and creates its cache, under a budget for a few of them. Leaked bytes would
// make a later load fail. Some swaps close the old cache, which ends its running jobs, and some loads fail.
// Jobs on an exchanged cache finish.
TEST_F(AliasTest, SwapsUnderLoadLoseNoJobAndNoMemory) {
  constexpr int kNumCallers = 3;
  const OwnedRequest request = make_request("Once upon", 12);
  ASSERT_TRUE(set(world.cache));
  const std::vector<int32_t> expected = run(request).tokens;
  ASSERT_EQ(expected.size(), 12U);
  std::atomic<bool> stops{false};
  std::atomic<int> num_jobs{0};
  std::atomic<int> num_failed{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < kNumCallers; ++i) {
    callers.emplace_back([&] {
      while (!stops) {
        const OwnedJob job(quire_alias_submit(alias.get(), request.get(), nullptr));
        if (!job || collect(job.get()).tokens != expected) ++num_failed;
        ++num_jobs;
      }
    });
  }
  OwnedModel model;
  OwnedCache cache = std::move(world.cache);
  quire_runtime_set_memory_budget(world.runtime.get(), "cpu", 3, 64 << 20, nullptr);
  const std::string nowhere = "/nonexistent";
  for (int i = 0; i < num_swaps_to_do(); ++i) {
    if (i % 8 == 0) {
      const OwnedModelOptions bad(quire_model_options_create(nullptr));
      quire_model_options_set_path(bad.get(), nowhere.data(), nowhere.size(), nullptr);
      EXPECT_EQ(quire_model_load(world.runtime.get(), bad.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr),
                nullptr);
    }
    OwnedModel next_model = load_model(world.runtime.get());
    ASSERT_TRUE(next_model) << "swap " << i;
    OwnedCache next = make_cache(next_model.get());
    ASSERT_TRUE(next) << "swap " << i;
    ASSERT_TRUE(set(next)) << report.message();
    cache = std::move(next);  // frees the old one
    model = std::move(next_model);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stops = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_failed, 0) << "of " << num_jobs;
  EXPECT_EQ(quire_alias_num_swaps(alias.get(), nullptr), num_swaps_to_do());
  EXPECT_GT(num_jobs, num_swaps_to_do() / 4);
  EXPECT_TRUE(holds_memory()) << "one model is there";
  alias = {};
  cache = {};
  model = {};
  world.model = {};
  while (holds_memory()) std::this_thread::yield();  // a thread of the last cache may still be ending
}

// Closing the exchanged cache ends only jobs that were on it already.
TEST_F(AliasTest, ClosingAnExchangedCacheRefusesNoNewJob) {
  ASSERT_TRUE(set(world.cache));
  std::atomic<bool> stops{false};
  std::atomic<int> num_refused{0};
  std::thread caller([&] {
    const OwnedRequest request = make_request("Hello", 2);
    Report why;
    while (!stops) {
      const OwnedJob job(quire_alias_submit(alias.get(), request.get(), why.out()));
      // On a busy machine jobs may arrive faster than the engine thread accepts them.
      if (!job && why.code() != QUIRE_ERROR_CAPACITY) ++num_refused;
    }
  });
  OwnedCache cache = std::move(world.cache);
  for (int i = 0; i < 30; ++i) {
    OwnedCache next = make_cache(world.model.get());
    ASSERT_TRUE(set(next));
    quire_cache_close(cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
    cache = std::move(next);
  }
  stops = true;
  caller.join();
  EXPECT_EQ(num_refused, 0);
}

}  // namespace
}  // namespace quire::testing
