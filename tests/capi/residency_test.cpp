// Models whose weights are evicted and reloaded: results are the same, jobs wait, budgets hold.
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

OwnedModelOptions options_of(const std::string& path) {
  OwnedModelOptions options(quire_model_options_create(nullptr));
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  return options;
}

OwnedModel load_lazily(quire_runtime* runtime, const std::string& path = tiny_model_path()) {
  const OwnedModelOptions options = options_of(path);
  EXPECT_EQ(quire_model_options_set_lazy(options.get(), 1, nullptr), 1);
  return OwnedModel(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr));
}

int32_t state_of(const OwnedModel& model) {
  return quire_model_state(model.get(), nullptr);
}

int64_t figure_of(const OwnedModel& model, int32_t figure) {
  return quire_model_figure(model.get(), figure, nullptr);
}

int32_t evict(const OwnedModel& model, int32_t to = QUIRE_MODEL_STATE_STANDING_BY,
              quire_error** error = nullptr) {
  return quire_model_evict(model.get(), to, QUIRE_WAIT_FOREVER, nullptr, error);
}

std::vector<int32_t> run(const OwnedCache& cache, std::string_view prompt = "Hello") {
  const OwnedRequest request = make_request(prompt, 12);
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
  return job ? collect(job.get()).tokens : std::vector<int32_t>{};
}

class ResidencyTest : public ::testing::Test {
 protected:
  World world;
  Report report;
};

TEST_F(ResidencyTest, AReloadedModelComputesTheSame) {
  const std::vector<int32_t> expected = run(world.cache);
  ASSERT_EQ(expected.size(), 12U);
  const int64_t bytes = quire_model_weight_bytes(world.model.get(), nullptr);
  for (const int32_t to : {QUIRE_MODEL_STATE_STANDING_BY, QUIRE_MODEL_STATE_ON_DISK}) {
    ASSERT_EQ(evict(world.model, to, report.out()), 1) << report.message();
    EXPECT_EQ(state_of(world.model), to);
    EXPECT_EQ(quire_model_weight_bytes(world.model.get(), nullptr), bytes);
    EXPECT_EQ(run(world.cache), expected);
    EXPECT_EQ(state_of(world.model), QUIRE_MODEL_STATE_RESIDENT);
  }
  ASSERT_EQ(evict(world.model), 1);
  EXPECT_EQ(quire_model_wake(world.model.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1);
  EXPECT_EQ(run(world.cache, "Another"), run(make_cache(world.model.get()), "Another"));
  EXPECT_EQ(figure_of(world.model, QUIRE_MODEL_FIGURE_WAKES), 3);
  EXPECT_EQ(figure_of(world.model, QUIRE_MODEL_FIGURE_WAITS), 2);
  EXPECT_EQ(figure_of(world.model, QUIRE_MODEL_FIGURE_EVICTIONS), 3);
  EXPECT_EQ(figure_of(world.model, QUIRE_MODEL_FIGURE_FAILED_WAKES), 0);
  EXPECT_GT(figure_of(world.model, QUIRE_MODEL_FIGURE_LAST_WAKE_NS), 0);
  EXPECT_GE(figure_of(world.model, QUIRE_MODEL_FIGURE_ALL_WAKES_NS),
            figure_of(world.model, QUIRE_MODEL_FIGURE_LAST_WAKE_NS));
}

// Host memory for weights on standby has its own budget, whose name no device has.
TEST_F(ResidencyTest, PinnedMemoryHasABudget) {
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  ASSERT_EQ(quire_runtime_options_set_memory_budget(options.get(), "pinned", 6, 1 << 20, report.out()), 1);
  const OwnedRuntime runtime(quire_runtime_create(options.get(), report.out()));
  ASSERT_TRUE(runtime) << report.message();
  EXPECT_EQ(quire_runtime_set_memory_budget(runtime.get(), "pinned", 6, 0, report.out()), 1);
  EXPECT_EQ(quire_runtime_set_memory_budget(runtime.get(), "pinned:0", 8, 0, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
  OwnedModel model = load_lazily(runtime.get());
  ASSERT_EQ(quire_model_wake(model.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1);
  ASSERT_EQ(evict(model), 1);
  EXPECT_EQ(state_of(model), QUIRE_MODEL_STATE_STANDING_BY);
}

TEST_F(ResidencyTest, WrongArgumentsAreRefusedByName) {
  EXPECT_EQ(quire_model_evict(world.model.get(), QUIRE_MODEL_STATE_RESIDENT, 0, nullptr, report.out()),
            QUIRE_WAIT_FAILED);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
  EXPECT_EQ(quire_model_set_priority(world.model.get(), 1001, report.out()), 0);
  EXPECT_EQ(quire_model_set_idle_timeout_ns(world.model.get(), -1, report.out()), 0);
  EXPECT_EQ(quire_model_figure(world.model.get(), 99, report.out()), -1);
  const OwnedModelOptions options = options_of(tiny_model_path());
  EXPECT_EQ(quire_model_options_set_lazy(options.get(), 2, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
  const OwnedModel bare = load_model(world.runtime.get(), tiny_model_path(), QUIRE_MODEL_SCOPE_METADATA);
  EXPECT_EQ(quire_model_state(bare.get(), report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED) << report.message();
}

TEST_F(ResidencyTest, TheMetricsListStatesAndMemoryOfModels) {
  ASSERT_EQ(evict(world.model), 1);
  const OwnedModel other = load_model(world.runtime.get());
  std::string page(1 << 20, '\0');
  const int64_t size = quire_runtime_metrics(world.runtime.get(), page.data(), page.size(), report.out());
  ASSERT_GT(size, 0) << report.message();
  page.resize(static_cast<size_t>(size));
  const std::string path = "{model=\"" + tiny_model_path() + "\",number=";
  EXPECT_NE(page.find("\nquire_model_state" + path + "\"1\"} 2"), std::string::npos) << page;
  EXPECT_NE(page.find("\nquire_model_state" + path + "\"2\"} 1"), std::string::npos) << page;
  EXPECT_NE(page.find("\nquire_model_evictions_total" + path + "\"1\"} 1"), std::string::npos) << page;
  const std::string held = "\nquire_memory_bytes{device=\"cpu\",taker=\"the weights of " + tiny_model_path() +
                           "\"} " + std::to_string(quire_model_weight_bytes(other.get(), nullptr)) + "\n";
  EXPECT_NE(page.find(held), std::string::npos) << page;
}

TEST_F(ResidencyTest, ALazyModelIsLoadedByItsFirstJob) {
  const std::vector<int32_t> expected = run(world.cache);
  const OwnedModel model = load_lazily(world.runtime.get());
  ASSERT_TRUE(model);
  EXPECT_EQ(state_of(model), QUIRE_MODEL_STATE_STANDING_BY);
  EXPECT_EQ(quire_model_weight_bytes(model.get(), nullptr),
            quire_model_weight_bytes(world.model.get(), nullptr));
  const OwnedCache cache = make_cache(model.get());
  ASSERT_TRUE(cache);
  EXPECT_EQ(state_of(model), QUIRE_MODEL_STATE_STANDING_BY) << "a cache needs no weights";
  EXPECT_EQ(run(cache), expected);
  EXPECT_EQ(state_of(model), QUIRE_MODEL_STATE_RESIDENT);
}

// The directory is replaced by another model while the first is on disk, so the planned weights are missing.
TEST_F(ResidencyTest, ExchangedFilesEndTheJobsByName) {
  const TempDirectory directory;
  const std::filesystem::path path = directory.file("model");
  std::filesystem::copy(tiny_model_path(), path, std::filesystem::copy_options::recursive);
  const OwnedModel model = load_model(world.runtime.get(), path.string());
  const OwnedCache cache = make_cache(model.get());
  const std::vector<int32_t> expected = run(cache);
  ASSERT_EQ(evict(model, QUIRE_MODEL_STATE_ON_DISK), 1);
  std::filesystem::rename(path, directory.file("away"));
  for (int i = 0; i < 2; ++i) {
    const OwnedRequest request = make_request("Hello", 2);
    const OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
    ASSERT_TRUE(job);
    EXPECT_EQ(collect(job.get()).error_code, QUIRE_ERROR_NOT_FOUND);
  }
  EXPECT_EQ(quire_model_wake(model.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), QUIRE_WAIT_FAILED);
  EXPECT_NE(report.message().find(path.string()), std::string::npos) << report.message();
  EXPECT_EQ(figure_of(model, QUIRE_MODEL_FIGURE_FAILED_WAKES), 3);
  std::filesystem::rename(directory.file("away"), path);
  EXPECT_EQ(run(cache), expected);
}

// Two models under a budget for one: in both orders, at once, and by jobs in turn. All give the same answer.
TEST_F(ResidencyTest, TwoModelsUnderABudgetForOneTakeTurns) {
  const std::vector<int32_t> expected = run(world.cache);
  const int64_t weights = quire_model_weight_bytes(world.model.get(), nullptr);
  const OwnedRuntime runtime = make_runtime();
  quire_runtime_set_memory_budget(runtime.get(), "cpu", 3, weights * 3 / 2, nullptr);
  const OwnedModel first = load_model(runtime.get());
  ASSERT_TRUE(first);
  const OwnedModel second = load_model(runtime.get());
  ASSERT_TRUE(second) << "the first, which has no jobs, is evicted";
  EXPECT_EQ(state_of(first), QUIRE_MODEL_STATE_STANDING_BY);
  EXPECT_EQ(state_of(second), QUIRE_MODEL_STATE_RESIDENT);
  EXPECT_EQ(quire_model_wake(first.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  EXPECT_EQ(state_of(second), QUIRE_MODEL_STATE_STANDING_BY);

  const OwnedCacheOptions small(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_tokens(small.get(), 64, nullptr);
  quire_cache_options_set_max_batch_size(small.get(), 1, nullptr);
  quire_cache_options_set_max_chunk_tokens(small.get(), 16, nullptr);
  const int64_t pages = quire_cache_required_bytes(first.get(), small.get(), nullptr);
  quire_runtime_set_memory_budget(runtime.get(), "cpu", 3, weights * 3 / 2 + 2 * pages, nullptr);
  const OwnedCache caches[] = {OwnedCache(quire_cache_create(first.get(), small.get(), report.out())),
                               OwnedCache(quire_cache_create(second.get(), small.get(), report.out()))};
  ASSERT_TRUE(caches[0] && caches[1]) << report.message();
  std::atomic<int> num_wrong{0};
  std::vector<std::thread> callers;
  for (const OwnedCache& cache : caches) {
    callers.emplace_back([&cache, &num_wrong, &expected] {
      for (int i = 0; i < 8; ++i)
        if (run(cache) != expected) ++num_wrong;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(num_wrong, 0);
  EXPECT_GT(figure_of(first, QUIRE_MODEL_FIGURE_EVICTIONS) + figure_of(second, QUIRE_MODEL_FIGURE_EVICTIONS),
            0);
}

TEST_F(ResidencyTest, ConcurrentLoadsCannotReserveTheSameBytes) {
  const int64_t weights = quire_model_weight_bytes(world.model.get(), nullptr);
  const OwnedRuntime runtime = make_runtime();
  quire_runtime_set_memory_budget(runtime.get(), "cpu", 3, weights * 3 / 2, nullptr);
  for (int round = 0; round < 5; ++round) {
    OwnedModel models[2];
    int32_t codes[2] = {0, 0};
    std::vector<std::thread> loaders;
    for (int i = 0; i < 2; ++i) {
      loaders.emplace_back([&, i] {
        Report mine;
        const OwnedModelOptions options = options_of(tiny_model_path());
        models[i] = OwnedModel(
            quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, mine.out()));
        codes[i] = mine.code();
      });
    }
    for (std::thread& loader : loaders) loader.join();
    int num_resident = 0;
    for (int i = 0; i < 2; ++i) {
      if (!models[i])
        EXPECT_EQ(codes[i], QUIRE_ERROR_OUT_OF_MEMORY);
      else if (state_of(models[i]) == QUIRE_MODEL_STATE_RESIDENT)
        ++num_resident;
    }
    EXPECT_EQ(num_resident, 1) << "round " << round;
  }
}

TEST_F(ResidencyTest, AnIdleModelGoesToStandbyAfterItsTimeout) {
  EXPECT_EQ(run(world.cache).size(), 12U);
  EXPECT_EQ(quire_model_set_idle_timeout_ns(world.model.get(), 1'000'000, nullptr), 1);
  while (state_of(world.model) != QUIRE_MODEL_STATE_STANDING_BY) std::this_thread::yield();
  EXPECT_EQ(run(world.cache).size(), 12U);
}

// Handles are freed in any order while the weights are loading.
TEST_F(ResidencyTest, EverythingMayBeFreedWhileAModelWakes) {
  for (int round = 0; round < 10; ++round) {
    OwnedModel model = load_lazily(world.runtime.get());
    OwnedCache cache = make_cache(model.get());
    const OwnedRequest request = make_request("Hello", 2);
    OwnedJob job(quire_job_submit(cache.get(), request.get(), nullptr));
    ASSERT_TRUE(job);
    if (round % 2 == 0) quire_model_wake(model.get(), 0, nullptr, nullptr);
    model.reset();
    cache.reset();
    job.reset();
  }
}

}  // namespace
}  // namespace quire::testing
