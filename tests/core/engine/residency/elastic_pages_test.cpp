// A cache that grows when jobs need pages and releases unused memory, within the budget of its device.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr uint64_t kPageBytes = 100;
constexpr const char* kCard = "card:0";

// Returns options with pages of 4 tokens: 4 pages at first, growing by 4 up to 20.
FakeEngineOptions elastic_engine(const std::shared_ptr<Runtime>& runtime) {
  FakeEngineOptions options;
  options.limits.num_pages = 20;
  options.limits.least_pages = options.limits.chunk_pages = 4;
  options.limits.max_pages_per_sequence = 4;
  options.max_seq_len = 16;
  options.cache.start_thread = false;
  options.runtime = runtime;
  options.page_memory = [](int32_t num_pages) {
    return std::vector<MemoryRequest>{{kCard, kPageBytes * static_cast<uint64_t>(num_pages), "the cache"}};
  };
  return options;
}

std::shared_ptr<Runtime> runtime_of(uint64_t budget, const Clock& clock = steady_clock()) {
  RuntimeOptions options;
  options.clock = &clock;
  options.memory_budgets[kCard] = budget;
  return Runtime::create(std::move(options));
}

int32_t num_pages(const FakeEngine& engine) {
  return engine.cache->thread().loop().kv().pool().num_pages();
}

TokenIds prompt_of(int32_t job) {
  return {job, job + 1, job + 2, job + 3};
}

std::vector<std::shared_ptr<Job>> submit_jobs(FakeEngine& engine, int32_t count) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < count; ++i) jobs.push_back(engine.cache->submit(greedy(prompt_of(i), 12)));
  return jobs;
}

void expect_right(const std::vector<std::shared_ptr<Job>>& jobs) {
  for (size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(read_all(*jobs[i], std::chrono::seconds(20)).tokens,
              fake_greedy(prompt_of(static_cast<int32_t>(i)), 12, 64));
}

TEST(ElasticPages, JobsMakeACacheGrowAndTheBudgetCountsEachChunk) {
  const auto runtime = runtime_of(100 * kPageBytes);
  FakeEngine engine(elastic_engine(runtime));
  EXPECT_EQ(num_pages(engine), 4);
  const auto jobs = submit_jobs(engine, 5);
  engine.run_to_idle();
  EXPECT_EQ(num_pages(engine), 20);
  EXPECT_EQ(runtime->leased_bytes(kCard), 16 * kPageBytes);
  EXPECT_EQ(engine.cache->stats().preemptions, 0U);
  expect_right(jobs);
}

TEST(ElasticPages, JobsRunOneAfterAnotherIfTheBudgetIsUsedUp) {
  const auto runtime = runtime_of(4 * kPageBytes);
  FakeEngine engine(elastic_engine(runtime));
  const auto jobs = submit_jobs(engine, 5);
  engine.run_to_idle();
  EXPECT_EQ(num_pages(engine), 8);
  expect_right(jobs);
}

TEST(ElasticPages, AChunkThatTheDeviceRefusesIsNotCounted) {
  const auto runtime = runtime_of(100 * kPageBytes);
  FakeEngine engine(elastic_engine(runtime));
  engine.executor->before_growth = [] { throw Error(ErrorCode::out_of_memory, "no memory"); };
  const auto jobs = submit_jobs(engine, 5);
  engine.run_to_idle();
  EXPECT_EQ(num_pages(engine), 4);
  EXPECT_EQ(runtime->leased_bytes(kCard), 0U);
  expect_right(jobs);
}

TEST(ElasticPages, AJobThatNeedsMoreThanThePromisedPagesIsRefused) {
  FakeEngineOptions options = elastic_engine(runtime_of(100 * kPageBytes));
  options.max_seq_len = 200;
  options.limits.max_pages_per_sequence = 20;
  FakeEngine engine(options);
  try {
    engine.cache->submit(greedy({1, 2, 3}, 30));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::too_large);
  }
}

TEST(ElasticPages, MemoryUnusedForAWhileIsReleased) {
  SimulatedClock clock;
  const auto runtime = runtime_of(100 * kPageBytes, clock);
  FakeEngineOptions options = elastic_engine(runtime);
  options.cache.page_idle_time = std::chrono::seconds(10);
  FakeEngine engine(options);
  const auto jobs = submit_jobs(engine, 5);
  engine.run_to_idle();
  ASSERT_EQ(num_pages(engine), 20);
  EXPECT_LE(engine.cache->thread().next_event() - clock.now(), std::chrono::seconds(10));
  clock.advance(std::chrono::seconds(10));
  engine.run_to_idle();
  EXPECT_EQ(num_pages(engine), 20) << "they were used since the last check";
  clock.advance(std::chrono::seconds(10));
  engine.run_to_idle();
  EXPECT_EQ(num_pages(engine), 4);
  EXPECT_EQ(runtime->leased_bytes(kCard), 0U);
  EXPECT_EQ(engine.cache->stats().pages.total, 4);
  EXPECT_EQ(engine.cache->thread().next_event(), TimePoint::max());
}

// Returns the largest number of state slots that were used at the same time until the engine is idle.
int32_t most_slots(FakeEngine& engine) {
  int32_t most = 0;
  while (engine.cache->thread().run_once() == StepOutcome::advanced)
    most = std::max(most, engine.cache->thread().loop().kv().states().num_used());
  return most;
}

TEST(ElasticPages, StateSlotsComeAndGoWithPages) {
  SimulatedClock clock;
  const auto runtime = runtime_of(100 * kPageBytes, clock);
  FakeEngineOptions options = elastic_engine(runtime);
  options.limits.num_state_slots = 10;
  options.limits.least_state_slots = 2;
  options.cache.page_idle_time = std::chrono::seconds(10);
  FakeEngine engine(options);
  const StatePool& states = engine.cache->thread().loop().kv().states();
  EXPECT_EQ(states.num_slots(), 2);
  for (int32_t time = 0; time < 2; ++time) {
    const auto jobs = submit_jobs(engine, 5);
    EXPECT_EQ(most_slots(engine), 5);
    EXPECT_EQ(states.num_slots(), 10);
    expect_right(jobs);
    for (int32_t check = 0; check < 2; ++check) {
      clock.advance(std::chrono::seconds(10));
      engine.run_to_idle();
    }
    EXPECT_EQ(states.num_slots(), 2);
    EXPECT_EQ(runtime->leased_bytes(kCard), 0U);
  }
  EXPECT_EQ(engine.executor->num_bad_reads(), 0);
}

TEST(ElasticPages, ACacheGrowsForStateSlotsAlone) {
  for (const bool has_memory : {true, false}) {
    const auto runtime = runtime_of((has_memory ? 100 : 0) * kPageBytes + 1);
    FakeEngineOptions options = elastic_engine(runtime);
    options.limits.least_pages = 16;
    options.limits.num_state_slots = 10;
    options.limits.least_state_slots = 2;
    FakeEngine engine(options);
    const auto jobs = submit_jobs(engine, 3);
    EXPECT_EQ(most_slots(engine), has_memory ? 3 : 2);
    EXPECT_EQ(num_pages(engine), has_memory ? 20 : 16);
    expect_right(jobs);
    EXPECT_EQ(engine.cache->stats().preemptions, 0U);
  }
}

TEST(ElasticPages, OtherCachesGetOnlyTheUnusedMemory) {
  const auto runtime = runtime_of(20 * kPageBytes);
  FakeEngine engine(elastic_engine(runtime));
  {
    const auto jobs = submit_jobs(engine, 5);
    engine.run_to_idle();
  }
  ASSERT_EQ(runtime->leased_bytes(kCard), 16 * kPageBytes);
  const MemoryLease some = runtime->lease_memory({kCard, 10 * kPageBytes, "the weights of b"});
  EXPECT_EQ(num_pages(engine), 12) << "two chunks were enough";
  const MemoryLease rest = runtime->lease_memory({kCard, 10 * kPageBytes, "the weights of c"});
  EXPECT_EQ(num_pages(engine), 4);
  EXPECT_THROW(runtime->lease_memory({kCard, 1, "the weights of d"}), Error);
  const auto jobs = submit_jobs(engine, 3);
  engine.run_to_idle();
  EXPECT_EQ(num_pages(engine), 4) << "memory of others is not used";
  expect_right(jobs);
}

TEST(ElasticPages, LoadsAndJobsOnThreadsNeverExceedTheBudget) {
  const auto runtime = runtime_of(20 * kPageBytes);
  FakeEngineOptions options = elastic_engine(runtime);
  options.cache.start_thread = true;
  options.cache.page_idle_time = std::chrono::milliseconds(1);
  FakeEngine engine(options);
  int32_t num_leased = 0;
  std::thread loads([&] {
    for (int32_t i = 0; i < 300; ++i) {
      try {
        const MemoryLease lease = runtime->lease_memory({kCard, 12 * kPageBytes, "the weights of b"});
        EXPECT_LE(runtime->leased_bytes(kCard), 20 * kPageBytes);
        ++num_leased;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      }
    }
  });
  for (int32_t round = 0; round < 40; ++round) expect_right(submit_jobs(engine, 5));
  loads.join();
  EXPECT_GT(num_leased, 0);
  engine.cache->close();
  engine.cache = nullptr;
  EXPECT_EQ(runtime->leased_bytes(kCard), 0U);
}

}  // namespace
}  // namespace quire::testing
