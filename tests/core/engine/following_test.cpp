// Steps that are issued ahead, before their input tokens are known, on the fake device, stepped by hand.
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kPageTokens = 16;

FakeEngineOptions following() {
  FakeEngineOptions options;
  options.limits = {64, 8, 64, 16, 64, kPageTokens, kVocab};
  make_drawing(options.limits);
  options.cache.start_thread = false;
  return options;
}

class FollowingTest : public ::testing::Test {
 protected:
  void run_once() { EXPECT_EQ(engine_.cache->thread().run_once(), StepOutcome::advanced); }
  const FakeExecutor& device() const { return *engine_.executor; }

  FakeEngine engine_{following()};
};

// Each step draws a token. The first step cannot be issued ahead; the fourth begins a page.
TEST_F(FollowingTest, EachStepIsIssuedAheadWhileAllJobsContinue) {
  const TokenIds prompt(kPageTokens - 2, 5);
  const auto job = engine_.cache->submit(greedy(prompt, 11));
  EXPECT_EQ(engine_.run_to_idle(), 11);
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(prompt, 11, kVocab));
  EXPECT_EQ(device().num_steps(), 11);
  EXPECT_EQ(device().num_followed(), 10);
  EXPECT_EQ(device().num_discarded(), 0);
}

TEST_F(FollowingTest, AnUnexpectedStopEndsOnlyItsJob) {
  const TokenIds first{1, 2, 3};
  const TokenIds second{4, 5, 6};
  const TokenIds expected = fake_greedy(first, 8, kVocab);
  JobRequest stops = greedy(first, 8);
  stops.stop_tokens = {expected[3]};
  const auto stopped = engine_.cache->submit(stops);
  const auto other = engine_.cache->submit(greedy(second, 8));
  engine_.run_to_idle();
  EXPECT_EQ(stopped->result().reason, FinishReason::stop_token);
  EXPECT_EQ(read_all(*other).tokens, fake_greedy(second, 8, kVocab));
  EXPECT_EQ(device().num_steps(), 8);
  EXPECT_GE(device().num_followed(), 6) << "what is left of a step is not computed again";
  EXPECT_EQ(device().num_discarded(), 0);
  EXPECT_EQ(engine_.cache->stats().pages.referenced, 0);
}

TEST_F(FollowingTest, ANewJobWaitsForTheIssuedStep) {
  const TokenIds prompt{1, 2, 3};
  const auto running = engine_.cache->submit(greedy(prompt, 8));
  run_once();
  run_once();
  const auto late = engine_.cache->submit(greedy({9, 9}, 2));
  run_once();
  EXPECT_EQ(late->state(), JobState::queued);
  run_once();
  EXPECT_EQ(late->state(), JobState::generating);
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*running).tokens, fake_greedy(prompt, 8, kVocab));
  EXPECT_EQ(read_all(*late).tokens, fake_greedy({9, 9}, 2, kVocab));
  EXPECT_EQ(device().num_discarded(), 0);
}

// If all running slots are in use, no waiting job could join the next step, so steps may be issued ahead.
TEST_F(FollowingTest, AQueueThatCannotStartDoesNotDelaySteps) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 10; ++i) jobs.push_back(engine_.cache->submit(greedy({i, 3}, 12)));  // 8 can run
  engine_.run_to_idle();
  for (int32_t i = 0; i < 10; ++i)
    EXPECT_EQ(read_all(*jobs[static_cast<size_t>(i)]).tokens, fake_greedy({i, 3}, 12, kVocab));
  EXPECT_EQ(device().num_steps(), 24);
  EXPECT_EQ(device().num_followed(), 22) << "all but the first of either eight or two";
  EXPECT_EQ(device().num_discarded(), 0);
}

// A job of higher priority preempts a running job, which must not be delayed for long.
TEST_F(FollowingTest, ANewJobIsConsideredEvenIfAllSlotsAreInUse) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 9; ++i) jobs.push_back(engine_.cache->submit(greedy({i, 3}, 12)));
  run_once();
  run_once();
  JobRequest urgent = greedy({7, 7}, 2);
  urgent.priority = 5;
  const auto late = engine_.cache->submit(urgent);
  run_once();  // this step was already issued
  run_once();
  EXPECT_EQ(late->state(), JobState::generating);
  engine_.run_to_idle();
  for (int32_t i = 0; i < 9; ++i)
    EXPECT_EQ(read_all(*jobs[static_cast<size_t>(i)]).tokens, fake_greedy({i, 3}, 12, kVocab));
}

TEST_F(FollowingTest, ACancelledJobIsNotComputedFurther) {
  const auto job = engine_.cache->submit(greedy({1, 2, 3}, 8));
  run_once();
  run_once();
  job->cancel();
  EXPECT_EQ(engine_.cache->thread().run_once(), StepOutcome::idle);
  EXPECT_EQ(job->result().reason, FinishReason::cancelled);
  EXPECT_EQ(engine_.cache->stats().pages.referenced, 0);
  // The next job reuses its pages, to which the discarded step has written.
  const auto next = engine_.cache->submit(greedy({1, 2, 3, 4}, 8));
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*next).tokens, fake_greedy({1, 2, 3, 4}, 8, kVocab));
  EXPECT_EQ(device().num_discarded(), 1);
}

TEST_F(FollowingTest, AForkGetsItsOwnPageEvenIfAStepWasIssued) {
  const TokenIds prompt{1, 2, 3, 4, 5};
  const TokenIds expected = fake_greedy(prompt, 9, kVocab);
  const auto job = engine_.cache->submit(greedy(prompt, 9));
  run_once();
  run_once();
  const auto child = job->fork({});
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, expected);
  EXPECT_EQ(read_all(*child).tokens, TokenIds(expected.begin() + 2, expected.end()));
}

TEST_F(FollowingTest, ARewoundJobDrawsTheSameAgain) {
  const TokenIds prompt{1, 2, 3, 4, 5};
  const auto job = engine_.cache->submit(greedy(prompt, 9));
  for (int32_t i = 0; i < 4; ++i) run_once();
  job->rewind(1);
  engine_.run_to_idle();
  const TokenIds expected = fake_greedy(prompt, 9, kVocab);
  TokenIds seen(expected.begin(), expected.begin() + 4);
  seen.insert(seen.end(), expected.begin() + 1, expected.end());
  EXPECT_EQ(read_all(*job).tokens, seen);
}

// The host computes edits that depend on the previous token while the pass runs.
TEST_F(FollowingTest, PenaltiesBiasesAndBansDoNotDelaySteps) {
  JobRequest penalised = greedy({1, 2, 3}, 9);
  penalised.sampling.repetition_penalty = 1.5F;
  penalised.sampling.logit_bias = {{4, 2.0F}};
  penalised.sampling.banned_tokens = {5};
  penalised.min_new_tokens = 4;
  penalised.stop_tokens = {6};
  const auto job = engine_.cache->submit(penalised);
  engine_.run_to_idle();
  EXPECT_EQ(device().num_followed(), device().num_steps() - 1);

  FakeEngineOptions plain = following();
  plain.limits.makes_draws = plain.limits.follows = false;
  FakeEngine other{plain};
  const auto alone = other.cache->submit(penalised);
  other.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, read_all(*alone).tokens);
}

// The host draws from its row; the other job continues meanwhile.
TEST_F(FollowingTest, AJobDrawnByTheHostSkipsOneStepAndDelaysNoOther) {
  const TokenIds prompt{1, 2, 3};
  const auto fast = engine_.cache->submit(greedy(prompt, 12));
  JobRequest with_rows = greedy({4, 5, 6}, 6);
  with_rows.num_top_log_probs = 2;
  const auto slow = engine_.cache->submit(with_rows);
  EXPECT_EQ(engine_.run_to_idle(), 12);
  EXPECT_EQ(read_all(*fast).tokens, fake_greedy(prompt, 12, kVocab));
  EXPECT_EQ(read_all(*slow).tokens, fake_greedy({4, 5, 6}, 6, kVocab));
  EXPECT_EQ(device().num_followed(), 11);
}

// Chunks of a prompt are known, so the steps between them need no wait either.
TEST_F(FollowingTest, TheChunksOfALongPromptAreIssuedAhead) {
  TokenIds prompt(190, 1);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(i * 7 % 50);
  const auto job = engine_.cache->submit(greedy(prompt, 4));  // in steps of 64 tokens
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(prompt, 4, kVocab));
  EXPECT_EQ(device().num_followed(), device().num_steps() - 1);
  EXPECT_EQ(device().num_discarded(), 0);
}

TEST_F(FollowingTest, AFailedStepDiscardsTheStepAfterIt) {
  const TokenIds prompt{1, 2, 3};
  const auto job = engine_.cache->submit(greedy(prompt, 9));
  const auto other = engine_.cache->submit(greedy({4, 5}, 9));
  run_once();
  int32_t num_calls = 0;
  engine_.executor->before_wait = [&] {
    if (num_calls++ == 0) throw Error(ErrorCode::internal, "this once");
  };
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(prompt, 9, kVocab));
  EXPECT_EQ(read_all(*other).tokens, fake_greedy({4, 5}, 9, kVocab));
}

// 32 jobs of different lengths, penalties on half of them, a page every 16 tokens.
TEST(Following, NearlyAllTokensOfManyUnequalJobsAreIssuedAhead) {
  FakeEngineOptions options = following();
  options.limits = {512, 32, 64, 32, 1024, kPageTokens, kVocab};
  make_drawing(options.limits);
  options.limits.max_draw_edits = 1 << 16;
  options.max_seq_len = 400;
  FakeEngine engine{options};
  std::mt19937 random(20261122);
  const auto between = [&](int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  std::vector<std::shared_ptr<Job>> jobs;
  std::vector<JobRequest> requests;
  for (int32_t i = 0; i < 32; ++i) {
    JobRequest request = greedy({}, between(50, 250));
    for (int32_t n = between(5, 90); n > 0; --n) request.prompt.push_back(between(0, kVocab - 1));
    if (i % 2 == 1) request.sampling.repetition_penalty = 1.3F;
    requests.push_back(request);
    jobs.push_back(engine.cache->submit(request));
  }
  engine.run_to_idle();
  const FakeExecutor& device = *engine.executor;
  const double share =
      static_cast<double>(device.num_rows_followed()) / static_cast<double>(device.num_rows_drawn());
  EXPECT_GE(share, 0.95) << device.num_rows_followed() << " of " << device.num_rows_drawn();
  std::cout << "[          ] " << device.num_rows_followed() << " of " << device.num_rows_drawn()
            << " tokens of jobs were issued ahead, " << device.num_discarded() << " passes in vain\n";
  for (size_t i = 0; i < jobs.size(); i += 2)
    EXPECT_EQ(read_all(*jobs[i]).tokens, fake_greedy(requests[i].prompt, requests[i].max_new_tokens, kVocab));
}

}  // namespace
}  // namespace quire::testing
