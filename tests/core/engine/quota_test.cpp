// A namespace never holds more pages than its quota: checked after each step, with jobs that grow, and with
// forks, which share the pages of their parents at once.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "core/engine/events/event_queue.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kMaxPages = 6;  // 4 tokens each

class QuotaTest : public ::testing::Test {
 protected:
  QuotaTest() : engine_(options()) {}

  static FakeEngineOptions options() {
    FakeEngineOptions options;
    options.cache.start_thread = false;
    options.cache.default_quota.max_pages = kMaxPages;
    return options;
  }

  int32_t held_pages() {
    int32_t held = 0;
    for (const Job* job : jobs_) {
      const JobRecord* const record = engine_.cache->thread().loop().jobs().find(job->id());
      if (record != nullptr && record->lane.sequence) {
        held += engine_.cache->thread().loop().kv().num_pages(*record->lane.sequence);
      }
    }
    return held;
  }

  // Runs all jobs to their ends and returns the most pages they held after a step.
  int32_t most_held_pages() {
    int32_t most = held_pages();
    while (engine_.cache->thread().run_once() == StepOutcome::advanced) most = std::max(most, held_pages());
    return most;
  }

  void expect_greedy(Job& job, const TokenIds& prompt, int32_t num_new_tokens) {
    EXPECT_EQ(read_all(job).tokens, fake_greedy(prompt, num_new_tokens, 64));
  }

  FakeEngine engine_;
  std::vector<const Job*> jobs_;
};

TEST_F(QuotaTest, GrowingJobsStayWithinTheQuota) {
  const TokenIds prompts[] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
  std::vector<std::shared_ptr<Job>> jobs;
  for (const TokenIds& prompt : prompts) {
    jobs.push_back(engine_.cache->submit(greedy(prompt, 18)));  // 22 tokens: the whole quota
    jobs_.push_back(jobs.back().get());
  }
  engine_.cache->thread().run_once();
  EXPECT_EQ(engine_.cache->stats().running_jobs, 3) << "all begin";
  EXPECT_EQ(most_held_pages(), kMaxPages);
  EXPECT_GT(engine_.cache->stats().preemptions, 0U);
  for (size_t i = 0; i < jobs.size(); ++i) expect_greedy(*jobs[i], prompts[i], 18);
}

TEST_F(QuotaTest, AForkWaitsIfTwiceItsParentsPagesExceedTheQuota) {
  const TokenIds prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  const auto parent = engine_.cache->submit(greedy(prompt, 8));
  engine_.cache->thread().run_once();
  const auto child = parent->fork({});
  jobs_ = {parent.get(), child.get()};
  engine_.cache->thread().run_once();
  EXPECT_EQ(engine_.cache->stats().running_jobs, 1) << "four pages each, six for both";
  EXPECT_EQ(engine_.cache->stats().preemptions, 0U) << "it has not begun at all";
  EXPECT_LE(most_held_pages(), kMaxPages);
  EXPECT_EQ(child->result().error, ErrorCode::ok);
  expect_greedy(*parent, prompt, 8);
  const TokenIds whole = fake_greedy(prompt, 8, 64);
  EXPECT_EQ(read_all(*child).tokens, TokenIds(whole.begin() + 1, whole.end()));
}

// Two namespaces with more jobs than running slots: each gets its share of the tokens over any initial
// period.
TEST(FairShareTest, ANamespaceOfTwiceTheWeightGetsTwiceTheTokens) {
  constexpr int32_t kNumJobs = 30;  // in each namespace
  FakeEngineOptions options;
  options.cache.start_thread = false;
  options.cache.max_running_jobs = 1;
  options.cache.ageing_interval = Duration{0};
  options.cache.namespaces = {{"one", {}}, {"two", {}}};
  options.cache.namespaces[1].quota.weight = 2.0;
  FakeEngine engine(options);
  std::vector<std::shared_ptr<Job>> jobs;
  for (const char* const name : {"one", "two"}) {
    for (int32_t i = 0; i < kNumJobs; ++i) {
      JobRequest request;
      request.prompt = {1, 2, 3};
      request.name_space = name;
      request.max_new_tokens = 5;
      request.reuse_prefix = false;
      jobs.push_back(engine.cache->submit(request));
    }
  }
  for (int32_t num_done = 0; num_done < kNumJobs;) {
    engine.cache->thread().run_once();
    num_done = 0;
    int32_t num_of_two = 0;
    for (int32_t i = 0; i < 2 * kNumJobs; ++i) {
      if (jobs[static_cast<size_t>(i)]->state() != JobState::finished) continue;
      ++num_done;
      num_of_two += i >= kNumJobs ? 1 : 0;
    }
    EXPECT_LE(std::abs(3 * num_of_two - 2 * num_done), 3) << num_of_two << " of " << num_done;
  }
}

}  // namespace
}  // namespace quire::testing
