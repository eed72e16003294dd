// Scheduling through the C interface: priorities, deadlines, pauses, rewinds, shared prompts, pins and
// quotas. A test that must act while a job runs tries again with another job if that job ended too early.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

constexpr int32_t kManyTokens = 1000;
constexpr int64_t kHour = 3'600'000'000'000;

class SchedulingTest : public ::testing::Test {
 protected:
  // Creates a cache of 256 pages of 4 tokens; `set` changes the options.
  OwnedCache cache_with(const std::function<void(quire_cache_options*)>& set) {
    const OwnedCacheOptions options(quire_cache_options_create(nullptr));
    quire_cache_options_set_page_tokens(options.get(), 4, nullptr);
    quire_cache_options_set_max_tokens(options.get(), 1024, nullptr);
    set(options.get());
    OwnedCache made(quire_cache_create(world.model.get(), options.get(), report.out()));
    EXPECT_TRUE(made) << report.message();
    return made;
  }

  OwnedJob submit(quire_cache* cache, const OwnedRequest& request) {
    OwnedJob job(quire_job_submit(cache, request.get(), report.out()));
    EXPECT_TRUE(job) << report.message();
    return job;
  }

  // Returns after the scheduler has handled all earlier calls and has run a step.
  void pass_a_step(quire_cache* cache) {
    const OwnedRequest request = make_request("a", 1);
    for (int i = 0; i < 2; ++i) {
      EXPECT_GE(quire_cache_query(cache, request.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 0)
          << report.message();
    }
  }

  // A job with its number of tokens so far, paused before its end.
  struct PausedJob {
    OwnedJob job;
    int64_t num_tokens = 0;
  };
  PausedJob pause_one(const OwnedRequest& request) {
    for (;;) {
      PausedJob paused{submit(world.cache.get(), request), 0};
      while (quire_job_new_tokens(paused.job.get(), nullptr) < 6) pass_a_step(world.cache.get());
      EXPECT_EQ(quire_job_pause(paused.job.get(), nullptr), 1);
      pass_a_step(world.cache.get());
      paused.num_tokens = quire_job_new_tokens(paused.job.get(), nullptr);
      if (quire_job_state(paused.job.get(), nullptr) == QUIRE_JOB_STATE_PAUSED) return paused;
    }
  }

  World world;
  Report report;
};

// Two jobs that wait for a third one, on a cache that runs one at a time.
class OrderTest : public SchedulingTest {
 protected:
  using Change = std::function<void(quire_job_request*, quire_job_request*)>;
  using ChangeJobs = std::function<void(quire_job*, quire_job*)>;

  // Returns which of two jobs (1 or 2), submitted one after the other, starts first.
  uint64_t first_started(const Change& change, const ChangeJobs& change_jobs = {}) {
    const OwnedCache cache =
        cache_with([](auto* options) { quire_cache_options_set_max_batch_size(options, 1, nullptr); });
    const OwnedRequest one = make_request("one", 2);
    const OwnedRequest two = make_request("two", 2);
    change(one.get(), two.get());
    for (;;) {
      const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
      const OwnedJob in_front = submit(cache.get(), in_front_of_all());
      const OwnedJob first = submit_to(queue, cache, one, 1);
      const OwnedJob second = submit_to(queue, cache, two, 2);
      if (change_jobs) change_jobs(first.get(), second.get());
      if (quire_job_state(in_front.get(), nullptr) == QUIRE_JOB_STATE_FINISHED) continue;
      quire_job_cancel(in_front.get(), nullptr);
      const OwnedEvent event(next_event(queue.get(), QUIRE_WAIT_FOREVER, nullptr));
      EXPECT_EQ(quire_event_type(event.get(), nullptr), QUIRE_EVENT_STARTED);
      return quire_event_user_data(event.get(), nullptr);
    }
  }

 private:
  static OwnedRequest in_front_of_all() {
    OwnedRequest request = make_request("abc", 900);
    quire_job_request_set_priority(request.get(), 1000, nullptr);
    return request;
  }
  OwnedJob submit_to(const OwnedQueue& queue, const OwnedCache& cache, const OwnedRequest& request,
                     uint64_t user_data) {
    quire_job_request_set_queue(request.get(), queue.get(), nullptr);
    quire_job_request_set_user_data(request.get(), user_data, nullptr);
    return submit(cache.get(), request);
  }
};

TEST_F(OrderTest, TheEarlierJobGoesFirst) {
  EXPECT_EQ(first_started([](auto*, auto*) {}), 1U);
}

TEST_F(OrderTest, ThenTheHigherPriority) {
  EXPECT_EQ(first_started([](auto*, auto* two) { quire_job_request_set_priority(two, 1, nullptr); }), 2U);
  EXPECT_EQ(first_started([](auto* one, auto*) { quire_job_request_set_priority(one, -1, nullptr); }), 2U);
}

TEST_F(OrderTest, WithinAPriorityTheEarlierDeadline) {
  EXPECT_EQ(first_started([](auto*, auto* two) { quire_job_request_set_deadline_ns(two, kHour, nullptr); }),
            2U);
}

TEST_F(OrderTest, APriorityMayChangeWhileTheJobWaits) {
  EXPECT_EQ(
      first_started([](auto*, auto*) {}, [](auto*, auto* two) { quire_job_set_priority(two, 5, nullptr); }),
      2U);
  Report refusal;
  const OwnedJob job = submit(world.cache.get(), make_request("a", 1));
  EXPECT_EQ(quire_job_set_priority(job.get(), 1001, refusal.out()), 0);
  EXPECT_EQ(refusal.code(), QUIRE_ERROR_INVALID_ARGUMENT);
}

TEST_F(SchedulingTest, APausedJobComputesNothingAndResumes) {
  const OwnedRequest request = make_request("Hello", kManyTokens);
  const Collected whole = collect(submit(world.cache.get(), request).get());
  const PausedJob paused = pause_one(request);
  collect(submit(world.cache.get(), make_request("other", 20)).get());
  EXPECT_EQ(quire_job_new_tokens(paused.job.get(), nullptr), paused.num_tokens);
  EXPECT_EQ(quire_job_resume(paused.job.get(), nullptr), 1);
  const Collected resumed = collect(paused.job.get());
  EXPECT_EQ(resumed.tokens, whole.tokens);
  EXPECT_EQ(resumed.text, whole.text);
  EXPECT_EQ(resumed.finish_reason, QUIRE_FINISH_LENGTH);
}

TEST_F(SchedulingTest, ARewoundJobGeneratesAgainFromThere) {
  constexpr int32_t kKept = 4;
  const OwnedRequest request = make_request("Hello", kManyTokens);
  const Collected whole = collect(submit(world.cache.get(), request).get());
  const PausedJob paused = pause_one(request);
  EXPECT_EQ(quire_job_rewind(paused.job.get(), INT32_MAX, nullptr), 1) << "there are no more than that";
  EXPECT_EQ(quire_job_rewind(paused.job.get(), kKept, nullptr), 1);
  pass_a_step(world.cache.get());
  EXPECT_EQ(quire_job_new_tokens(paused.job.get(), nullptr), kKept);
  EXPECT_EQ(quire_job_resume(paused.job.get(), nullptr), 1);
  std::vector<int32_t> expected(whole.tokens.begin(), whole.tokens.begin() + paused.num_tokens);
  expected.insert(expected.end(), whole.tokens.begin() + kKept, whole.tokens.end());
  EXPECT_EQ(collect(paused.job.get()).tokens, expected) << "greedy: the same again";
  EXPECT_EQ(quire_job_new_tokens(paused.job.get(), nullptr), kManyTokens);
}

// Four completions of one prompt, submitted at once: the first computes the prompt, and the others find it.
TEST_F(SchedulingTest, APromptThatSeveralJobsShareIsComputedOnce) {
  constexpr int64_t kPromptTokens = 512;
  constexpr int64_t kNumJobs = 4;
  const OwnedRequest request = make_request(std::string(kPromptTokens, 'p'), 8);
  quire_job_request_set_temperature(request.get(), 1.0, nullptr);
  std::vector<OwnedJob> jobs;
  for (uint64_t seed = 1; seed <= kNumJobs; ++seed) {
    quire_job_request_set_seed(request.get(), seed, nullptr);
    jobs.push_back(submit(world.cache.get(), request));
  }
  std::vector<std::vector<int32_t>> said;
  for (const OwnedJob& job : jobs) said.push_back(collect(job.get()).tokens);
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  const int64_t computed = quire_stats_prompt_tokens(stats.get(), nullptr);
  const int64_t page_tokens = quire_stats_page_tokens(stats.get(), nullptr);
  EXPECT_EQ(computed + quire_stats_cached_tokens(stats.get(), nullptr), kNumJobs * kPromptTokens);
  EXPECT_LE(computed, kPromptTokens + (kNumJobs - 1) * page_tokens) << "the end of a prompt is never reused";
  EXPECT_NE(said[0], said[1]) << "each has a seed of its own";
}

TEST_F(SchedulingTest, CompletionsOfOnePromptAreSubmittedTogether) {
  constexpr size_t kNumJobs = 4;
  constexpr int64_t kPromptTokens = 512;
  const OwnedRequest request = make_request(std::string(kPromptTokens, 'q'), 8);
  quire_job_request_set_temperature(request.get(), 1.0, nullptr);
  quire_job_request_set_seed(request.get(), 7, nullptr);
  std::vector<quire_job*> handles(kNumJobs);
  ASSERT_EQ(quire_job_submit_many(world.cache.get(), request.get(), handles.data(), kNumJobs, report.out()),
            1)
      << report.message();
  std::vector<std::vector<int32_t>> said;
  for (quire_job* const handle : handles) said.push_back(collect(OwnedJob(handle).get()).tokens);
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  const int64_t page_tokens = quire_stats_page_tokens(stats.get(), nullptr);
  EXPECT_LE(quire_stats_prompt_tokens(stats.get(), nullptr), kPromptTokens + 3 * page_tokens);
  for (uint64_t i = 0; i < kNumJobs; ++i) {
    quire_job_request_set_seed(request.get(), 7 + i, nullptr);
    EXPECT_EQ(collect(submit(world.cache.get(), request).get()).tokens, said[i]) << "as if submitted alone";
  }
}

TEST_F(SchedulingTest, ManyJobsAreSubmittedAllOrNone) {
  const OwnedCache cache =
      cache_with([](auto* options) { quire_cache_options_set_max_queue(options, 3, nullptr); });
  const OwnedRequest request = make_request("abc", 4);
  std::vector<quire_job*> handles(4);
  for (const size_t num_jobs : {size_t{0}, size_t{4}, SIZE_MAX}) {
    EXPECT_EQ(quire_job_submit_many(cache.get(), request.get(), handles.data(), num_jobs, report.out()), 0);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
    EXPECT_NE(report.message().find("num_jobs"), std::string::npos) << report.message();
  }
  EXPECT_EQ(quire_job_submit_many(cache.get(), request.get(), nullptr, 3, report.out()), 0);
  EXPECT_NE(report.message().find("out_jobs"), std::string::npos) << report.message();
  EXPECT_EQ(handles, std::vector<quire_job*>(4)) << "nothing was written";
  pass_a_step(cache.get());
  const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
  EXPECT_EQ(quire_stats_jobs_submitted(stats.get(), nullptr), 0);
}

TEST_F(SchedulingTest, PassedDeadlinesEndAJobByName) {
  using Setter = int32_t (*)(quire_job_request*, int64_t, quire_error**);
  const std::pair<Setter, const char*> setters[] = {
      {quire_job_request_set_queue_deadline_ns, "queue_deadline_ns"},
      {quire_job_request_set_first_token_deadline_ns, "first_token_deadline_ns"},
      {quire_job_request_set_deadline_ns, "deadline_ns"}};
  for (const auto& [set, name] : setters) {
    const OwnedCache fresh = cache_with([](auto*) {});  // it cannot detect yet that a nanosecond is too short
    const OwnedRequest request = make_request("Hello", 100);
    set(request.get(), 1, nullptr);
    const OwnedJob job = submit(fresh.get(), request);
    const Collected said = collect(job.get());
    EXPECT_EQ(said.error_code, QUIRE_ERROR_DEADLINE);
    std::string line(500, '\0');
    quire_job_explain(job.get(), line.data(), line.size(), nullptr);
    EXPECT_NE(line.find(name), std::string::npos) << line;
  }
}

class PinTest : public SchedulingTest {
 protected:
  // Computes a prompt of ten pages and returns a request to pin it.
  OwnedRequest warm(quire_cache* cache, char letter, const std::string& name_space = {}) {
    OwnedRequest request = make_prompt(std::string(40, letter));
    quire_job_request_set_namespace(request.get(), name_space.data(), name_space.size(), nullptr);
    quire_job_request_set_kind(request.get(), QUIRE_JOB_KIND_WARM, nullptr);
    collect(submit(cache, request).get());
    return request;
  }
  int64_t pin(quire_cache* cache, const OwnedRequest& request, int64_t time_to_live_ns = 0) {
    return quire_cache_pin(cache, request.get(), time_to_live_ns, QUIRE_WAIT_FOREVER, nullptr, report.out());
  }
  int64_t num_pinned(quire_cache* cache) {
    const OwnedStats stats(quire_cache_stats(cache, nullptr));
    return quire_stats_pages_pinned(stats.get(), nullptr);
  }
};

TEST_F(PinTest, APinEndsWithItsTime) {
  const OwnedRequest request = warm(world.cache.get(), 'z');
  const int64_t short_pin = pin(world.cache.get(), request, 1);
  ASSERT_GT(short_pin, 0) << report.message();
  pass_a_step(world.cache.get());
  EXPECT_EQ(num_pinned(world.cache.get()), 0);
  EXPECT_EQ(quire_cache_unpin(world.cache.get(), short_pin, nullptr), 1) << "it is over, which is no error";
  ASSERT_GT(pin(world.cache.get(), request, kHour), 0) << report.message();
  pass_a_step(world.cache.get());
  EXPECT_EQ(num_pinned(world.cache.get()), 10);
}

TEST_F(PinTest, PinsObeyTheGlobalAndTheNamespaceLimit) {
  const OwnedCache cache = cache_with([](auto* options) {
    quire_cache_options_set_max_pinned_pages(options, 25, nullptr);
    quire_cache_options_set_namespace_quota(options, "a", 1, QUIRE_QUOTA_PINNED_PAGES, 12, nullptr);
  });
  EXPECT_GT(pin(cache.get(), warm(cache.get(), 'p', "a")), 0) << report.message();
  EXPECT_EQ(pin(cache.get(), warm(cache.get(), 'q', "a")), -1) << "two pages are left of twelve";
  EXPECT_EQ(report.code(), QUIRE_ERROR_QUOTA) << report.message();
  EXPECT_GT(pin(cache.get(), warm(cache.get(), 'q', "b")), 0) << report.message();
  EXPECT_EQ(pin(cache.get(), warm(cache.get(), 'r', "b")), -1) << "five are left of 25";
  EXPECT_EQ(report.code(), QUIRE_ERROR_QUOTA) << report.message();
  EXPECT_EQ(num_pinned(cache.get()), 20);
}

TEST_F(SchedulingTest, AJobThatNeverFitsItsPageQuotaIsRefused) {
  const OwnedCache cache = cache_with([](auto* options) {
    quire_cache_options_set_quota(options, QUIRE_QUOTA_PAGES, 3, nullptr);
    quire_cache_options_set_namespace_quota(options, "large", 5, QUIRE_QUOTA_PAGES, 0, nullptr);
  });
  EXPECT_TRUE(submit(cache.get(), make_request("abcd", 8)));
  const OwnedRequest request = make_request("abcd", 9);
  EXPECT_EQ(quire_job_submit(cache.get(), request.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TOO_LARGE);
  EXPECT_NE(report.message().find("quota of the namespace is 3"), std::string::npos) << report.message();
  quire_job_request_set_namespace(request.get(), "large", 5, nullptr);
  EXPECT_TRUE(submit(cache.get(), request));
}

TEST_F(SchedulingTest, ANamespaceRunsNoMoreJobsThanItsQuota) {
  const OwnedCache cache = cache_with(
      [](auto* options) { quire_cache_options_set_quota(options, QUIRE_QUOTA_RUNNING_JOBS, 1, nullptr); });
  std::vector<OwnedJob> jobs;
  for (int i = 0; i < 6; ++i) jobs.push_back(submit(cache.get(), make_request("abc", 60)));
  for (const OwnedJob& job : jobs) EXPECT_EQ(collect(job.get()).tokens.size(), 60U);
  const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
  EXPECT_EQ(quire_stats_histogram_sum(stats.get(), QUIRE_HISTOGRAM_STEP_SEQUENCES, nullptr),
            static_cast<double>(quire_stats_steps(stats.get(), nullptr)))
      << "one sequence in each step";
}

TEST_F(SchedulingTest, ANamespaceQueuesNoMoreJobsThanItsQuota) {
  const OwnedCache cache = cache_with([](auto* options) {
    quire_cache_options_set_max_batch_size(options, 1, nullptr);
    quire_cache_options_set_namespace_quota(options, "n", 1, QUIRE_QUOTA_QUEUED_JOBS, 2, nullptr);
  });
  const OwnedRequest request = make_request("abc", 900);
  quire_job_request_set_namespace(request.get(), "n", 1, nullptr);
  std::vector<OwnedJob> jobs;
  do {
    jobs.emplace_back(quire_job_submit(cache.get(), request.get(), report.out()));
  } while (jobs.back());
  EXPECT_EQ(report.code(), QUIRE_ERROR_QUOTA);
  EXPECT_NE(report.message().find("queue of namespace \"n\""), std::string::npos) << report.message();
  EXPECT_TRUE(submit(cache.get(), make_request("abc", 1))) << "another namespace has its own";
}

}  // namespace
}  // namespace quire::testing
