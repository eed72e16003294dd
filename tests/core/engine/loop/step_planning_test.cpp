// Plans of single steps from the jobs that are there.
#include "core/engine/loop/step_planning.h"

#include "tests/core/engine/loop/loop_parts.h"

namespace quire::testing {
namespace {

const TokenIds kLongPrompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

TEST(StepPlanning, NothingToPlanWithoutJobs) {
  LoopParts parts;
  EXPECT_FALSE(parts.planning.plan(parts.plan));
  EXPECT_TRUE(parts.plan.empty());
}

TEST(StepPlanning, AWaitingJobIsAdmittedWithItsPrompt) {
  LoopParts parts;
  const auto job = parts.submit(greedy(kLongPrompt, 4));
  ASSERT_TRUE(parts.planning.plan(parts.plan));
  ASSERT_EQ(parts.plan.lanes.size(), 1U);
  EXPECT_EQ(parts.plan.lanes[0].lane, &parts.record(*job)->lane);
  EXPECT_EQ(parts.plan.lanes[0].max_tokens, 10);
  EXPECT_EQ(parts.plan.lanes[0].num_rows, 1);
  EXPECT_EQ(parts.jobs.running().size(), 1U);
}

TEST(StepPlanning, ALongPromptComesInChunks) {
  LoopParts parts({.max_chunk_tokens = 4});
  const auto job = parts.submit(greedy(kLongPrompt, 4));
  std::vector<int32_t> sizes;
  while (parts.step()) sizes.push_back(parts.plan.lanes[0].num_tokens);
  EXPECT_EQ(sizes, (std::vector<int32_t>{4, 4, 2, 1, 1, 1}));
}

TEST(StepPlanning, RunningJobsComeBesideAPrompt) {
  LoopParts parts({.max_chunk_tokens = 4});
  const auto first = parts.submit(greedy({1, 2}, 8));
  ASSERT_TRUE(parts.step());
  const auto second = parts.submit(greedy(kLongPrompt, 4));
  ASSERT_TRUE(parts.step());
  ASSERT_EQ(parts.plan.num_jobs(), 2);
  for (const PlannedLane& planned : parts.plan.lanes)
    EXPECT_EQ(planned.num_tokens, planned.lane == &parts.record(*first)->lane ? 1 : 3);
}

TEST(StepPlanning, JobsBeyondTheLimitWait) {
  LoopParts parts({.max_running_jobs = 1});
  const auto first = parts.submit(greedy(kLongPrompt, 2));
  const auto second = parts.submit(greedy(kLongPrompt, 2));
  ASSERT_TRUE(parts.planning.plan(parts.plan));
  EXPECT_EQ(parts.plan.num_jobs(), 1);
  EXPECT_EQ(parts.jobs.waiting().size(), 1U);
  EXPECT_NE(parts.record(*second)->wait_reason.cause, WaitCause::none);
}

TEST(StepPlanning, APausedJobTakesNoPart) {
  LoopParts parts;
  const auto job = parts.submit(greedy(kLongPrompt, 4));
  ASSERT_TRUE(parts.step());
  parts.record(*job)->paused = true;
  EXPECT_FALSE(parts.planning.plan(parts.plan));
}

TEST(StepPlanning, TheStepAfterIsPlannedFromTheStateThatItLeaves) {
  LoopParts parts({.draws_on_device = true});
  const auto job = parts.submit(greedy(kLongPrompt, 4));
  parts.jobs.read_clock();
  ASSERT_TRUE(parts.planning.plan(parts.plan));
  Reservation reservation = parts.pages.kv().reserve(parts.plan);
  parts.compute(reservation);
  StepPlan next;
  ASSERT_TRUE(parts.planning.plan_after(parts.plan, next));
  ASSERT_EQ(next.lanes.size(), 1U);
  EXPECT_EQ(next.lanes[0].start, 10);
  EXPECT_EQ(next.lanes[0].num_tokens, 1);
  EXPECT_EQ(parts.record(*job)->num_new_tokens(), 0) << "the job itself is unchanged";
}

}  // namespace
}  // namespace quire::testing
