// Steps that are issued before the tokens they take are known, on the fake device, stepped by hand.
#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr int32_t kVocab = 64;
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
  void run_once() { EXPECT_EQ(engine_.cache->core().run_once(), StepOutcome::advanced); }
  const FakeExecutor& device() const { return *engine_.executor; }

  FakeEngine engine_{following()};
};

// Each step draws a token. The first cannot be foreseen, nor the fourth, which begins a page.
TEST_F(FollowingTest, EachStepIsIssuedAheadWhereAllGoesOn) {
  const TokenIds prompt(kPageTokens - 2, 5);
  const auto job = engine_.cache->submit(greedy(prompt, 11));
  EXPECT_EQ(engine_.run_to_idle(), 11);
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(prompt, 11, kVocab));
  EXPECT_EQ(device().num_steps(), 11);
  EXPECT_EQ(device().num_followed(), 9);
  EXPECT_EQ(device().num_in_vain(), 0);
}

TEST_F(FollowingTest, AStopThatNobodyForesawEndsItsJobAlone) {
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
  EXPECT_EQ(device().num_in_vain(), 0);
  EXPECT_EQ(engine_.cache->stats().pages.referenced, 0);
}

TEST_F(FollowingTest, WhoComesWaitsForTheStepThatWasIssued) {
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
  EXPECT_EQ(device().num_in_vain(), 0);
}

// With all places taken nobody could begin with the next step, so that it need not be waited for.
TEST_F(FollowingTest, AQueueThatCannotMoveDoesNotHoldStepsUp) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 10; ++i) jobs.push_back(engine_.cache->submit(greedy({i, 3}, 12)));  // for 8 places
  engine_.run_to_idle();
  for (int32_t i = 0; i < 10; ++i)
    EXPECT_EQ(read_all(*jobs[static_cast<size_t>(i)]).tokens, fake_greedy({i, 3}, 12, kVocab));
  EXPECT_EQ(device().num_steps(), 24);
  EXPECT_EQ(device().num_followed(), 22) << "all but the first of either eight or two";
  EXPECT_EQ(device().num_in_vain(), 0);
}

// A higher priority takes a running job's place, which no step may put off for long.
TEST_F(FollowingTest, ANewJobIsLookedAtThoughAllPlacesAreTaken) {
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < 9; ++i) jobs.push_back(engine_.cache->submit(greedy({i, 3}, 12)));
  run_once();
  run_once();
  JobRequest urgent = greedy({7, 7}, 2);
  urgent.priority = 5;
  const auto late = engine_.cache->submit(urgent);
  run_once();  // had been issued
  run_once();
  EXPECT_EQ(late->state(), JobState::generating);
  engine_.run_to_idle();
  for (int32_t i = 0; i < 9; ++i)
    EXPECT_EQ(read_all(*jobs[static_cast<size_t>(i)]).tokens, fake_greedy({i, 3}, 12, kVocab));
}

TEST_F(FollowingTest, NobodyIsRunOnForACancelledJob) {
  const auto job = engine_.cache->submit(greedy({1, 2, 3}, 8));
  run_once();
  run_once();
  job->cancel();
  EXPECT_EQ(engine_.cache->core().run_once(), StepOutcome::idle);
  EXPECT_EQ(job->result().reason, FinishReason::cancelled);
  EXPECT_EQ(engine_.cache->stats().pages.referenced, 0);
  // The next to come takes over its pages, into which the step in vain has written.
  const auto next = engine_.cache->submit(greedy({1, 2, 3, 4}, 8));
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*next).tokens, fake_greedy({1, 2, 3, 4}, 8, kVocab));
  EXPECT_EQ(device().num_in_vain(), 1);
}

TEST_F(FollowingTest, AForkTakesAPageOfItsOwnThoughAStepWasIssued) {
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

// A token that depends on the one before cannot be drawn ahead.
TEST_F(FollowingTest, PenaltiesAndRowsForTheHostAreNotForeseen) {
  JobRequest penalised = greedy({1, 2, 3}, 5);
  penalised.sampling.repetition_penalty = 1.5F;
  engine_.cache->submit(penalised);
  engine_.run_to_idle();
  JobRequest with_rows = greedy({4, 5, 6}, 5);
  with_rows.num_top_log_probs = 2;
  engine_.cache->submit(with_rows);
  engine_.run_to_idle();
  EXPECT_EQ(device().num_followed() + device().num_in_vain(), 0);
}

TEST_F(FollowingTest, AFailedStepTakesTheOneBehindItAlong) {
  const TokenIds prompt{1, 2, 3};
  const auto job = engine_.cache->submit(greedy(prompt, 9));
  const auto other = engine_.cache->submit(greedy({4, 5}, 9));
  run_once();
  int32_t num_calls = 0;
  engine_.executor->before_logits = [&] {
    if (num_calls++ == 0) throw Error(ErrorCode::internal, "this once");
  };
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(prompt, 9, kVocab));
  EXPECT_EQ(read_all(*other).tokens, fake_greedy({4, 5}, 9, kVocab));
}

}  // namespace
}  // namespace quire::testing
