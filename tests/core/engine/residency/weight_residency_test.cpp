// Weights of fake models that are evicted from their devices and loaded back, under a budget. A cache
// computes only while the weights of its model are on the device.
#include "core/engine/residency/weight_residency.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_weight_residency.h"

namespace quire::testing {
namespace {

class WeightResidencyTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBudget = 100;

  // An evictable model, and a cache on it without a thread.
  struct Model {
    std::shared_ptr<FakeWeights> weights;
    std::shared_ptr<WeightResidency> residency;
    std::unique_ptr<FakeEngine> engine;

    std::shared_ptr<Job> submit(int32_t num_tokens = 4, Duration deadline = Duration{0}) const {
      JobRequest request = greedy({1, 2, 3}, num_tokens);
      request.total_deadline = deadline;
      return engine->cache->submit(std::move(request));
    }
    // Runs until there is nothing to do, and checks that every step has its weights.
    void run() const {
      while (engine->cache->thread().run_once() == StepOutcome::advanced) EXPECT_TRUE(weights->is_there);
    }
  };

  void SetUp() override {
    RuntimeOptions options;
    options.clock = &clock;
    options.threads = &threads;
    options.log =
        Log(LogLevel::info, [this](LogLevel, std::string_view line) { log += std::string(line) + "|"; });
    options.memory_budgets["card"] = kBudget;
    runtime = Runtime::create(std::move(options));
  }

  // With `page_bytes` makes a cache of 4 to 20 pages that grows by four.
  Model make(std::string name, uint64_t bytes, uint64_t page_bytes = 0) {
    FakeEngineOptions options;
    if (page_bytes > 0) {
      options.limits.num_pages = 20;
      options.limits.least_pages = options.limits.chunk_pages = 4;
      options.page_memory = [page_bytes](int32_t num_pages) {
        return std::vector<MemoryRequest>{
            {"card", page_bytes * static_cast<uint64_t>(num_pages), "the cache"}};
      };
    }
    return make(std::move(name), bytes, std::move(options));
  }

  Model make(std::string name, uint64_t bytes, FakeEngineOptions options) {
    Model model;
    model.weights = std::make_shared<FakeWeights>();
    model.weights->name = std::move(name);
    model.weights->bytes["card"] = bytes;
    model.residency = WeightResidency::create(
        runtime, std::make_unique<FakeEvictableWeights>(runtime, model.weights), ResidencyState::standing_by);
    options.runtime = runtime;
    options.cache.start_thread = false;
    options.residency = model.residency;
    model.engine = std::make_unique<FakeEngine>(options);
    return model;
  }

  SimulatedClock clock;
  DeferredThreads threads;
  std::string log;
  std::shared_ptr<Runtime> runtime;
};

TEST_F(WeightResidencyTest, JobsWaitUntilTheWeightsAreLoaded) {
  const Model model = make("m", 60);
  const auto job = model.submit();
  model.run();
  EXPECT_EQ(model.residency->state(), ResidencyState::moving);
  EXPECT_EQ(job->state(), JobState::queued);
  EXPECT_NE(job->explain().find("waits for the weights of its model"), std::string::npos) << job->explain();
  ASSERT_TRUE(threads.run_one());
  model.run();
  EXPECT_EQ(job->result().new_tokens, 4);
  EXPECT_EQ(model.residency->state(), ResidencyState::resident);
  EXPECT_EQ(model.residency->figures().waits, 1U);
  EXPECT_EQ(model.residency->figures().wakes, 1U);
  EXPECT_EQ(runtime->leased_bytes("card"), 60U);
}

TEST_F(WeightResidencyTest, DeadlinesOfJobsThatWaitCount) {
  const Model model = make("m", 60);
  const auto job = model.submit(4, std::chrono::seconds(1));
  model.run();
  clock.advance(std::chrono::seconds(2));
  model.run();
  EXPECT_EQ(job->result().error, ErrorCode::deadline);
  threads.run_one();
  model.run();
  EXPECT_EQ(model.residency->state(), ResidencyState::resident);
}

TEST_F(WeightResidencyTest, AFailedLoadEndsTheWaitingJobsAndLaterJobsTryAgain) {
  const Model model = make("m", 60);
  model.weights->failure = ErrorCode::truncated;
  const auto job = model.submit();
  model.run();
  threads.run_one();
  model.run();
  EXPECT_EQ(job->result().error, ErrorCode::truncated);
  EXPECT_EQ(job->result().message, "m: it does not load");
  EXPECT_EQ(runtime->leased_bytes("card"), 0U);
  EXPECT_EQ(model.residency->state(), ResidencyState::standing_by);
  EXPECT_EQ(model.residency->figures().failed_wakes, 1U);
  const auto next = model.submit();
  model.run();
  threads.run_one();
  model.run();
  EXPECT_EQ(next->result().new_tokens, 4);
}

TEST_F(WeightResidencyTest, WithoutAThreadTheJobsEndWithTheReason) {
  const Model model = make("m", 60);
  threads.refuses = true;
  const auto job = model.submit();
  model.run();
  model.run();
  EXPECT_EQ(job->result().error, ErrorCode::out_of_memory) << job->result().message;
  EXPECT_EQ(model.residency->state(), ResidencyState::standing_by);
}

TEST_F(WeightResidencyTest, AnIdleModelIsEvictedForAnotherAndLogged) {
  const Model a = make("a", 60);
  const Model b = make("b", 60);
  const auto first = a.submit();
  a.run();
  threads.run_one();
  a.run();
  const auto second = b.submit();
  b.run();
  threads.run_one();
  b.run();
  EXPECT_EQ(second->result().new_tokens, 4);
  EXPECT_EQ(a.residency->state(), ResidencyState::standing_by);
  EXPECT_EQ(a.residency->figures().evictions, 1U);
  EXPECT_NE(log.find("the weights of a are evicted from card for the weights of b"), std::string::npos)
      << log;
  const auto third = a.submit();
  a.run();
  threads.run_one();
  a.run();
  EXPECT_EQ(third->result().new_tokens, 4);
  EXPECT_EQ(b.residency->state(), ResidencyState::standing_by);
}

TEST_F(WeightResidencyTest, AModelWithJobsStaysAndTheOtherWaits) {
  const Model a = make("a", 60);
  const Model b = make("b", 60);
  const auto first = a.submit(50);
  a.run();
  threads.run_one();
  a.engine->cache->thread().run_once();
  const auto second = b.submit();
  b.run();
  threads.run_one();
  b.run();
  EXPECT_EQ(second->state(), JobState::queued) << "there may be memory later";
  EXPECT_FALSE(threads.run_one()) << "no retry before the state has changed";
  EXPECT_EQ(a.residency->state(), ResidencyState::resident);
  a.run();
  EXPECT_EQ(first->result().new_tokens, 50);
  b.run();
  threads.run_one();
  b.run();
  EXPECT_EQ(second->result().new_tokens, 4);
}

TEST_F(WeightResidencyTest, PagesThatJobsHoldAreWaitedForToo) {
  const Model a = make("a", 20, 8);
  const Model b = make("b", 60);
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 4; ++i) {
    JobRequest request = greedy({i, i + 1, i + 2, i + 3}, 12);
    jobs.push_back(a.engine->cache->submit(std::move(request)));
  }
  a.run();
  threads.run_one();
  while (runtime->leased_bytes("card") < 84 &&
         a.engine->cache->thread().run_once() == StepOutcome::advanced) {
  }
  ASSERT_EQ(runtime->leased_bytes("card"), 84U)
      << "two chunks more; evicting a's weights alone is not enough";
  const auto second = b.submit();
  b.run();
  threads.run_one();
  b.run();
  EXPECT_EQ(second->state(), JobState::queued) << "there is memory once the jobs have ended";
  a.run();
  b.run();
  threads.run_one();
  b.run();
  EXPECT_EQ(second->result().new_tokens, 4);
}

TEST_F(WeightResidencyTest, ALoadingModelMayBeEvictedLaterAndIsWaitedFor) {
  const Model a = make("a", 60);
  const Model b = make("b", 60);
  const auto first = a.submit();
  const auto second = b.submit();
  a.run();
  b.run();
  a.weights->while_loading = [&] { EXPECT_TRUE(threads.run_one()); };
  threads.run_one();
  b.run();
  EXPECT_EQ(second->state(), JobState::queued) << second->result().message;
  a.run();
  EXPECT_EQ(first->result().new_tokens, 4);
  b.run();
  threads.run_one();
  b.run();
  EXPECT_EQ(second->result().new_tokens, 4);
}

TEST_F(WeightResidencyTest, AModelLoadedForAJobStaysUntilTheJobIsComputed) {
  const Model a = make("a", 60);
  const Model b = make("b", 60);
  const auto first = a.submit();
  const auto second = b.submit();
  a.run();
  b.run();
  threads.run_one();
  threads.run_one();
  EXPECT_EQ(a.residency->state(), ResidencyState::resident) << "no job was computed since it was loaded";
  first->cancel();
  a.run();
  b.run();
  EXPECT_TRUE(threads.run_one()) << "the first is no longer needed";
  b.run();
  EXPECT_EQ(second->result().new_tokens, 4);
}

TEST_F(WeightResidencyTest, ALoadedIdleModelIsEvictedForWaitingJobs) {
  const Model a = make("a", 60);
  const Model b = make("b", 60);
  EXPECT_EQ(a.residency->wake(Duration{0}), WaitEnd::timeout);
  const auto job = b.submit();
  b.run();
  a.weights->while_loading = [&] { EXPECT_TRUE(threads.run_one()); };
  threads.run_one();
  b.run();
  EXPECT_TRUE(threads.run_one());
  b.run();
  EXPECT_EQ(job->result().new_tokens, 4);
}

TEST_F(WeightResidencyTest, AModelThatCanNeverFitIsRefusedAtOnce) {
  const Model a = make("a", 60);
  const Model huge = make("huge", 120);
  a.residency->set_priority(1);
  const auto job = huge.submit();
  huge.run();
  threads.run_one();
  huge.run();
  EXPECT_EQ(job->result().error, ErrorCode::out_of_memory);
  EXPECT_NE(job->result().message.find("the weights of huge needs 120 bytes"), std::string::npos);
}

TEST_F(WeightResidencyTest, AnEvictedModelsRemainingMemoryIsFreedBeforeALoadIsRefused) {
  const Model a = make("a", 60);
  a.weights->rest = 5;
  const auto wake = [this](const Model& model) {
    const auto job = model.submit();
    model.run();
    threads.run_one();
    model.run();
    return job->result().error;
  };
  EXPECT_EQ(wake(a), ErrorCode::ok);
  const Model b = make("b", 60);
  EXPECT_EQ(wake(b), ErrorCode::ok);
  EXPECT_TRUE(a.weights->has_rest) << "there is memory for it";
  EXPECT_EQ(runtime->leased_bytes("card"), 65U);
  const Model c = make("c", 96);
  EXPECT_EQ(wake(c), ErrorCode::ok);
  EXPECT_FALSE(a.weights->has_rest);
  EXPECT_EQ(a.residency->state(), ResidencyState::standing_by);
  EXPECT_EQ(runtime->leased_bytes("card"), 96U);
  EXPECT_EQ(wake(a), ErrorCode::ok);
  EXPECT_EQ(runtime->leased_bytes("card"), 60U);
  EXPECT_EQ(a.residency->figures().evictions, 1U) << "the second time there was nothing to evict";
}

TEST_F(WeightResidencyTest, AModelThatCannotFitBesideItsRemainingMemoryIsRefusedAtOnce) {
  const Model a = make("a", 60);
  a.weights->rest = 5;
  const auto first = a.submit();
  a.run();
  threads.run_one();
  a.run();
  ASSERT_TRUE(a.residency->evict_if_idle());
  runtime->set_memory_budget("card", 50);
  const auto job = a.submit();
  a.run();
  threads.run_one();
  a.run();
  EXPECT_EQ(job->result().error, ErrorCode::out_of_memory);
}

TEST_F(WeightResidencyTest, ALoadEvictsByPriority) {
  std::vector<Model> models;
  for (const char* name : {"a", "b", "c"}) {
    models.push_back(make(name, 30));
    const auto job = models.back().submit();
    models.back().run();
    threads.run_one();
    models.back().run();
  }
  models[0].residency->set_priority(2);
  models[1].residency->set_priority(1);
  const MemoryLease lease = runtime->lease_memory({"card", 70, "the weights of d"});
  EXPECT_EQ(models[0].residency->state(), ResidencyState::resident);
  EXPECT_EQ(models[1].residency->state(), ResidencyState::standing_by);
  EXPECT_EQ(models[2].residency->state(), ResidencyState::standing_by);
  expect_error(ErrorCode::out_of_memory, {"the weights of e", "the weights of d (70 bytes)"}, [&] {
    (void)runtime->lease_memory({"card", 31, "the weights of e"});
  });
  EXPECT_EQ(models[0].residency->state(), ResidencyState::resident) << "no eviction that would not suffice";
}

// The first step after a wake waits for the copies of the weights; later steps do not.
TEST_F(WeightResidencyTest, TheTimeOfTheCopiesDoesNotCountAsStepTime) {
  FakeEngineOptions options;
  options.cache.step_stretch = 3.0;
  const Model model = make("m", 60, std::move(options));
  Duration copies = std::chrono::milliseconds(200);
  model.engine->executor->before_step = [&](const Batch& batch) {
    const auto step = std::chrono::milliseconds(batch.num_tokens() > 1 ? 2 : 1);
    clock.advance(step + std::exchange(copies, Duration{0}));
  };
  for (TokenId first = 1; first < 4; ++first) {
    const auto job = model.engine->cache->submit(greedy(TokenIds(40, first), 4));
    model.run();
    while (threads.run_one()) model.run();
    ASSERT_EQ(job->result().new_tokens, 4);
  }
  ASSERT_EQ(model.residency->figures().wakes, 1U);
  EXPECT_GE(model.engine->cache->thread().loop().step_timing().step_tokens(1, 1), 40) << "which take 2 ms";
}

// Other caches can use the device during that time.
TEST_F(WeightResidencyTest, OthersComputeWhileTheFirstStepWaitsForTheWeights) {
  FakeEngineOptions options;
  make_drawing(options.limits);
  options.devices = {"card"};
  const Model woken = make("woken", 40, options);
  const Model other = make("other", 40, options);
  const auto running = other.submit(100);
  other.run();
  threads.run_one();
  for (int i = 0; i < 5; ++i) other.engine->cache->thread().run_once();
  const auto job = woken.submit(100);
  woken.run();
  threads.run_one();
  std::vector<bool> other_may;  // one value per step of the cache that woke
  woken.engine->executor->before_wait = [&] {
    other_may.push_back(other.engine->cache->thread().run_once() == StepOutcome::advanced);
  };
  while (other_may.size() < 3) {
    clock.advance(std::chrono::milliseconds(1));
    other.engine->cache->thread().run_once();
    woken.engine->cache->thread().run_once();
  }
  EXPECT_EQ(other_may, (std::vector<bool>{true, false, false}));
  EXPECT_NE(job->state(), JobState::finished);
}

TEST_F(WeightResidencyTest, EvictWaitsForTheJobsAndWakeForTheWeights) {
  const Model model = make("m", 60);
  EXPECT_EQ(model.residency->wake(Duration{0}), WaitEnd::timeout);
  threads.run_one();
  EXPECT_EQ(model.residency->wake(Duration{0}), WaitEnd::ready);
  const auto job = model.submit();
  model.engine->cache->thread().run_once();
  EXPECT_EQ(model.residency->evict(ResidencyState::on_disk, Duration{0}), WaitEnd::timeout);
  const auto cancel = std::make_shared<CancelSwitch>();
  cancel->trigger();
  EXPECT_EQ(model.residency->evict(ResidencyState::on_disk, {std::chrono::hours(1), cancel}),
            WaitEnd::cancelled);
  model.run();
  EXPECT_EQ(job->result().new_tokens, 4);
  EXPECT_EQ(model.residency->evict(ResidencyState::on_disk, Duration{0}), WaitEnd::ready);
  EXPECT_EQ(model.residency->state(), ResidencyState::on_disk);
  EXPECT_EQ(model.residency->evict(ResidencyState::standing_by, Duration{0}), WaitEnd::ready);
  EXPECT_EQ(model.residency->state(), ResidencyState::on_disk);
  EXPECT_EQ(runtime->leased_bytes("card"), 0U);
}

TEST_F(WeightResidencyTest, AFailedWakeGivesItsWaiterTheReason) {
  const Model model = make("m", 60);
  model.weights->failure = ErrorCode::io;
  threads.refuses = true;
  expect_error(ErrorCode::out_of_memory, {"quire-wake"}, [&] { (void)model.residency->wake(Duration{0}); });
}

TEST_F(WeightResidencyTest, AnIdleModelIsEvictedAfterItsTimeout) {
  const Model model = make("m", 60);
  model.residency->set_idle_timeout(std::chrono::seconds(5));
  const auto job = model.submit();
  model.run();
  threads.run_one();
  model.run();
  EXPECT_EQ(model.engine->cache->thread().next_event(), clock.now() + std::chrono::seconds(5));
  clock.advance(std::chrono::seconds(4));
  model.run();
  EXPECT_EQ(model.residency->state(), ResidencyState::resident);
  clock.advance(std::chrono::seconds(1));
  model.run();
  EXPECT_EQ(model.residency->state(), ResidencyState::standing_by);
  EXPECT_NE(log.find("were idle"), std::string::npos) << log;
}

TEST_F(WeightResidencyTest, AModelThatCannotBeEvictedIsUnchanged) {
  const Model model = make("m", 60);
  const auto job = model.submit();
  model.run();
  threads.run_one();
  model.run();
  model.weights->cannot_leave = true;
  expect_error(ErrorCode::io, {"the disk is gone"},
               [&] { (void)model.residency->evict(ResidencyState::standing_by, Duration{0}); });
  EXPECT_EQ(model.residency->state(), ResidencyState::resident);
  EXPECT_THROW((void)runtime->lease_memory({"card", 60, "the weights of x"}), RetryableOutOfMemory);
  const auto next = model.submit();
  model.run();
  EXPECT_EQ(next->result().new_tokens, 4);
}

}  // namespace
}  // namespace quire::testing
