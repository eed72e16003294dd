// Submit rejects a job that cannot meet its deadline, and no other job: first the arithmetic, then real jobs
// on the fake device, whose steps take ten milliseconds of a simulated clock.
#include "core/engine/scheduler/fastest_steps.h"

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

using std::chrono::milliseconds;

FastestSteps measured(Duration any, Duration full) {
  FastestSteps steps;
  steps.max_step_tokens = 8;
  steps.observe(1, any);
  steps.observe(8, full);
  return steps;
}

TEST(FastestStepsTest, KeepsTheShortestOfEachKind) {
  FastestSteps steps;
  steps.max_step_tokens = 8;
  for (const int took : {7, 5, 9}) steps.observe(3, milliseconds(took));
  EXPECT_EQ(steps.any, milliseconds(5));
  EXPECT_EQ(steps.full, Duration{0}) << "no step was full";
  for (const int took : {40, 30}) steps.observe(8, milliseconds(took));
  EXPECT_EQ(steps.any, milliseconds(5));
  EXPECT_EQ(steps.full, milliseconds(30));
  steps.observe(8, Duration{0});
  EXPECT_EQ(steps.full, milliseconds(30)) << "a clock that stands still measures nothing";
}

TEST(FastestStepsTest, APromptTakesItsFullStepsAndOneForTheRest) {
  const FastestSteps steps = measured(milliseconds(2), milliseconds(10));
  EXPECT_EQ(least_time_to_first_token(steps, {1, 1}), milliseconds(2));
  EXPECT_EQ(least_time_to_first_token(steps, {8, 1}), milliseconds(10));
  EXPECT_EQ(least_time_to_first_token(steps, {20, 1}), milliseconds(22));
  EXPECT_EQ(least_time_to_end(steps, {20, 1}), milliseconds(22)) << "the first token comes with the prompt";
  EXPECT_EQ(least_time_to_end(steps, {20, 6}), milliseconds(32));
  EXPECT_EQ(least_time_to_end(steps, {20, 0}), milliseconds(22));
}

TEST(FastestStepsTest, DraftTokensComeWithTheTokenBeforeThem) {
  const FastestSteps steps = measured(milliseconds(2), milliseconds(10));
  EXPECT_EQ(least_time_to_end(steps, {20, 1, 5}), milliseconds(22));
  EXPECT_EQ(least_time_to_end(steps, {20, 6, 5}), milliseconds(24));
  EXPECT_EQ(least_time_to_end(steps, {20, 7, 5}), milliseconds(26));
}

TEST(FastestStepsTest, AnUnmeasuredStepCountsAsZeroTime) {
  EXPECT_EQ(least_time_to_end(FastestSteps{}, {1000, 1000}), Duration{0});
  FastestSteps decoding;
  decoding.max_step_tokens = 8;
  decoding.observe(1, milliseconds(2));
  EXPECT_EQ(least_time_to_first_token(decoding, {20, 1}), milliseconds(6)) << "three steps, however full";
}

class DeadlineTest : public ::testing::Test {
 protected:
  DeadlineTest() {
    FakeEngineOptions options;
    options.clock = &clock;
    options.cache.start_thread = false;
    options.cache.max_chunk_tokens = 8;
    engine = std::make_unique<FakeEngine>(options);
    engine->executor->before_step = [this](const Batch&) { clock.advance(milliseconds(10)); };
  }
  JobRequest request(int32_t num_prompt_tokens, int32_t max_new_tokens) {
    JobRequest made;
    for (int32_t i = 0; i < num_prompt_tokens; ++i) made.prompt.push_back((first_token + i) % 64);
    first_token += 13;
    made.max_new_tokens = max_new_tokens;
    made.sampling.temperature = 0.0F;
    made.reuse_prefix = false;
    return made;
  }
  void measure_some_steps() {
    const auto job = engine->cache->submit(request(20, 3));
    engine->run_to_idle();
  }
  bool takes(const JobRequest& made) { return engine->cache->submit(made) != nullptr; }
  void expect_refused(const JobRequest& made, std::string_view field) {
    expect_error(ErrorCode::deadline_too_short, {field}, [&] { engine->cache->submit(made); });
  }

  SimulatedClock clock;
  std::unique_ptr<FakeEngine> engine;
  int32_t first_token = 0;
};

TEST_F(DeadlineTest, NothingIsRefusedBeforeAnythingWasMeasured) {
  JobRequest made = request(20, 100);
  made.total_deadline = Duration{1};
  EXPECT_TRUE(takes(made));
}

TEST_F(DeadlineTest, AJobThatCannotMeetItsDeadlineIsRefusedByName) {
  measure_some_steps();
  JobRequest made = request(20, 10);  // three steps for the prompt, nine for the rest
  made.total_deadline = milliseconds(119);
  expect_refused(made, "deadline_ns is 0.119000 s; ");
  made.total_deadline = Duration{0};
  made.first_token_deadline = milliseconds(29);
  expect_refused(made, "first_token_deadline_ns is 0.029000 s; ");
  EXPECT_EQ(engine->cache->thread().queue().num_live(), 0U) << "a refused job leaves nothing";
  EXPECT_EQ(engine->cache->stats().submitted_jobs, 1U);
}

// The bound is exact for a job alone: the smallest extra time is enough.
TEST_F(DeadlineTest, AJobThatCanMeetItsDeadlineIsAcceptedAndMeetsIt) {
  measure_some_steps();
  JobRequest made = request(20, 10);
  made.first_token_deadline = milliseconds(30) + Duration{1};
  made.total_deadline = milliseconds(120) + Duration{1};
  const auto job = engine->cache->submit(made);
  engine->run_to_idle();
  EXPECT_EQ(job->result().reason, FinishReason::max_new_tokens) << job->explain();
}

TEST_F(DeadlineTest, AJobThatMayStopEarlyOrFindItsPromptIsAccepted) {
  measure_some_steps();
  JobRequest stops = request(20, 100);
  stops.total_deadline = milliseconds(31);
  stops.stop_tokens = {3};
  EXPECT_TRUE(takes(stops));
  stops.min_new_tokens = 50;
  expect_refused(stops, "deadline_ns");
  stops.stop_strings = {"x"};
  EXPECT_TRUE(takes(stops)) << "a stop string may come at once";
  JobRequest finds = request(20, 1);
  finds.reuse_prefix = true;
  finds.first_token_deadline = milliseconds(11);
  EXPECT_TRUE(takes(finds));
}

TEST(DraftingDeadlineTest, AJobThatDraftsMayBeFasterThanATokenAStep) {
  SimulatedClock clock;
  FakeEngineOptions options;
  options.clock = &clock;
  options.cache.start_thread = false;
  options.cache.drafting = {DrafterKind::ngram, 2};
  FakeEngine engine(options);
  engine.executor->before_step = [&](const Batch&) { clock.advance(milliseconds(10)); };
  JobRequest made = greedy({1, 2, 3}, 7);
  const auto job = engine.cache->submit(made);
  engine.run_to_idle();
  made.total_deadline = milliseconds(31);  // one step for the prompt, two for six tokens
  EXPECT_NE(engine.cache->submit(made), nullptr);
  made.max_drafts = 0;
  expect_error(ErrorCode::deadline_too_short, {"deadline_ns"}, [&] { engine.cache->submit(made); });
}

TEST_F(DeadlineTest, AScoreHasToComputeItsWholePrompt) {
  measure_some_steps();
  JobRequest score = request(20, 1);
  score.kind = JobKind::score;
  score.reuse_prefix = true;
  score.total_deadline = milliseconds(29);
  expect_refused(score, "deadline_ns");
}

}  // namespace
}  // namespace quire::testing
