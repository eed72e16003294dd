// One-line explanations of a job's state: the texts alone, then those of real jobs.
#include "core/engine/jobs/explain.h"

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

TEST(ExplainTest, AJobThatWaitsForPagesNamesTheirNumberAndHolders) {
  JobView job;
  job.wait = {WaitCause::pages, 14, 6, 0, JobId{12}, {}};
  EXPECT_EQ(explain(job), "queued: needs 14 pages, 6 free, the next release is job 12");
  job.wait.next_release = {};
  EXPECT_EQ(explain(job), "queued: needs 14 pages, 6 free");
}

TEST(ExplainTest, EveryReasonToWaitHasItsOwnText) {
  JobView job;
  job.wait = {WaitCause::slots, 0, 0, 8, JobId{3}, {}};
  EXPECT_EQ(explain(job), "queued: all 8 batch slots are in use, the next release is job 3");
  job.wait = {WaitCause::quota_jobs, 0, 0, 2, {}, {}};
  EXPECT_EQ(explain(job), "queued: its namespace is at its limit of 2 running jobs");
  job.wait = {WaitCause::quota_pages, 9, 4, 0, {}, {}};
  EXPECT_EQ(explain(job), "queued: needs 9 pages, 4 left in the quota of its namespace");
  job.wait = {WaitCause::shared_prefix, 0, 0, 0, {}, {}};
  EXPECT_EQ(explain(job), "queued: waits for the start of its prompt, which another job is computing");
  job.wait = {WaitCause::turn, 0, 0, 0, {}, {}};
  EXPECT_EQ(explain(job), "queued: waits for its turn");
}

TEST(ExplainTest, AJobQueuedAfterAnotherNamesWhatThatOneWaitsFor) {
  JobView job;
  job.wait = {WaitCause::turn, 0, 0, 0, {}, JobId{7}};
  job.wait_in_front = {WaitCause::pages, 14, 6, 0, JobId{12}, {}};
  EXPECT_EQ(explain(job), "queued after job 7: needs 14 pages, 6 free, the next release is job 12");
}

TEST(ExplainTest, ARunningJobShowsHowItsTimeWasSpent) {
  JobView job;
  job.state = JobState::generating;
  job.batch_jobs = 31;
  job.result.prompt_tokens = 100;
  job.result.cached_tokens = 40;
  job.result.new_tokens = 11;
  job.result.time_queued = std::chrono::milliseconds(1500);
  job.result.time_prefill = std::chrono::milliseconds(250);
  job.result.time_generating = std::chrono::seconds(2);
  EXPECT_EQ(
      explain(job),
      "generating in steps of 31 jobs; queued 1.500 s, prompt 0.250 s for 100 tokens, 40 of them cached, "
      "11 new in 2.000 s, 5.0 a second");
  job.result.preemptions = 2;
  job.result.time_paused = std::chrono::milliseconds(750);
  EXPECT_NE(explain(job).find(", preempted 2 times, paused for 0.750 s"), std::string::npos);
}

TEST(ExplainTest, AGeneratingJobShowsItsDraftsOrWhyItHasNone) {
  JobView job;
  job.state = JobState::generating;
  const std::string plain = explain(job);
  job.result.draft_tokens = 20;
  job.result.accepted_draft_tokens = 12;
  const auto of = [&](DraftReason reason) {
    job.drafts = reason;
    const std::string line = explain(job);
    EXPECT_TRUE(line.starts_with(plain)) << line;
    return line.substr(plain.size());
  };
  EXPECT_EQ(of(DraftReason::not_generating), "");
  EXPECT_EQ(of(DraftReason::drafting), "; 12 of 20 draft tokens accepted");
  EXPECT_EQ(of(DraftReason::off_in_engine), "; no drafts: the cache has no drafter");
  EXPECT_EQ(of(DraftReason::off_in_request), "; no drafts: max_drafts of the request is 0");
  EXPECT_EQ(of(DraftReason::no_match), "; no drafts: the drafter has no proposal");
  EXPECT_EQ(of(DraftReason::costs_more),
            "; no drafts: at the recent acceptance they cost more time than they save");
  EXPECT_EQ(of(DraftReason::prompts), "; no drafts: prompts of other jobs are being computed");
  EXPECT_EQ(of(DraftReason::no_room), "; no drafts: no room in the step or before the end of the job");
  EXPECT_EQ(of(DraftReason::behind), "; no drafts: the draft network has not read the text of the job yet");
}

TEST(ExplainTest, AFailedJobShowsTheReason) {
  JobView job;
  job.state = JobState::finished;
  job.result.reason = FinishReason::failed;
  job.result.error = ErrorCode::numeric;
  job.result.message = "the logits are not finite";
  EXPECT_TRUE(explain(job).starts_with("finished by failure: "));
  EXPECT_TRUE(explain(job).ends_with("; numeric: the logits are not finite"));
}

// Real jobs, stepped by hand, ten milliseconds per step.
class ExplainedJobsTest : public ::testing::Test {
 protected:
  ExplainedJobsTest() {
    options.clock = &clock;
    options.cache.start_thread = false;
    options.cache.max_overtakes = 0;
  }
  std::shared_ptr<Job> submit(int32_t num_prompt_tokens, int32_t max_new_tokens,
                              const std::string& name_space = {}) {
    JobRequest request;
    for (int32_t i = 0; i < num_prompt_tokens; ++i) request.prompt.push_back((first_token + i) % kVocab);
    first_token += 11;
    request.max_new_tokens = max_new_tokens;
    request.sampling.temperature = 0.0F;
    request.name_space = name_space;
    request.slow_reader = policy;
    request.max_unread_events = 3;
    return engine().cache->submit(request);
  }
  static std::string name_of(const Job& job) { return std::to_string(job.id().value); }
  void step(int32_t num_steps = 1) {
    for (int32_t i = 0; i < num_steps; ++i) {
      engine().cache->thread().run_once();
      clock.advance(std::chrono::milliseconds(10));
    }
  }
  FakeEngine& engine() {
    if (engine_ == nullptr) engine_ = std::make_unique<FakeEngine>(options);
    return *engine_;
  }

  SimulatedClock clock;
  FakeEngineOptions options;
  SlowReaderPolicy policy = SlowReaderPolicy::coalesce;
  int32_t first_token = 0;

 private:
  std::unique_ptr<FakeEngine> engine_;
};

TEST_F(ExplainedJobsTest, WaitingForPages) {
  options.limits.num_pages = 16;
  const auto holder = submit(40, 10);  // ten pages of four tokens at first
  step(2);
  const auto waiting = submit(36, 10);
  const auto later = submit(2, 1);
  step();
  const std::string why = "needs 9 pages, 5 free, the next release is job " + name_of(*holder);
  EXPECT_EQ(waiting->explain(), "queued: " + why);
  EXPECT_EQ(later->explain(), "queued after job " + name_of(*waiting) + ": " + why);
  engine().run_to_idle();
  EXPECT_TRUE(waiting->explain().starts_with("finished by max_new_tokens: ")) << waiting->explain();
}

TEST_F(ExplainedJobsTest, WaitingForASlotOrForTheNamespace) {
  options.cache.max_running_jobs = 2;
  options.cache.namespaces = {{"small", {1, 0, 0, 0, 1.0}}};
  const auto first = submit(4, 50, "small");
  step();
  const auto quota = submit(4, 50, "small");
  step();
  EXPECT_EQ(quota->explain(), "queued: its namespace is at its limit of 1 running jobs");
  const auto second = submit(4, 30);
  step();
  const auto place = submit(4, 50);
  step();
  EXPECT_EQ(place->explain(),
            "queued: all 2 batch slots are in use, the next release is job " + name_of(*second));
}

TEST_F(ExplainedJobsTest, ALiveJobShowsItsFiguresSoFar) {
  const auto job = submit(8, 50);
  clock.advance(std::chrono::seconds(2));
  EXPECT_EQ(job->result().time_queued, std::chrono::seconds(2));
  EXPECT_EQ(job->result().prompt_tokens, 8);
  step(11);
  const JobResult result = job->result();
  EXPECT_EQ(result.reason, FinishReason::unfinished);
  EXPECT_EQ(result.time_queued, std::chrono::seconds(2));
  EXPECT_EQ(result.time_prefill, Duration{0});
  EXPECT_EQ(result.time_generating, std::chrono::milliseconds(110));
  EXPECT_EQ(result.new_tokens, 11);
  EXPECT_TRUE(job->explain().starts_with("generating in steps of 1 jobs; queued 2.000 s, "))
      << job->explain();
}

TEST_F(ExplainedJobsTest, AJobPausedByItsSlowReaderShowsIt) {
  policy = SlowReaderPolicy::pause;
  const auto job = submit(4, 20);
  step(10);
  EXPECT_EQ(job->state(), JobState::paused);
  EXPECT_TRUE(job->explain().starts_with("paused until its events are read; ")) << job->explain();
  EXPECT_EQ(job->result().new_tokens, 2) << "started and two texts are three events";
  while (job->state() != JobState::finished) {
    while (job->poll(Duration{0}).has_value()) {
    }
    step();
  }
  EXPECT_NE(job->explain().find(", paused for 0.080 s"), std::string::npos) << job->explain();
}

TEST_F(ExplainedJobsTest, APausedJobShowsIt) {
  const auto job = submit(4, 20);
  step(3);
  job->pause();
  step();
  EXPECT_TRUE(job->explain().starts_with("paused; queued 0.000 s, ")) << job->explain();
}

TEST_F(ExplainedJobsTest, APreemptedJobShowsIt) {
  options.limits.num_pages = 8;
  const auto high = submit(12, 12);
  const auto low = submit(12, 12);
  for (int32_t i = 0; i < 20 && low->result().preemptions == 0; ++i) step();
  ASSERT_EQ(low->result().preemptions, 1);
  EXPECT_TRUE(low->explain().starts_with("queued: needs ")) << low->explain();
  EXPECT_NE(low->explain().find(", preempted 1 times"), std::string::npos) << low->explain();
}

}  // namespace
}  // namespace quire::testing
