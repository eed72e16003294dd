// Jobs that the engine has taken in, without a step.
#include "core/engine/loop/live_jobs.h"

#include "tests/core/engine/loop/loop_parts.h"

namespace quire::testing {
namespace {

class LiveJobsTest : public ::testing::Test {
 protected:
  LoopParts parts;
};

TEST_F(LiveJobsTest, AJobWaitsUntilItIsAdmitted) {
  const auto job = parts.submit(greedy({1, 2, 3}, 4));
  ASSERT_EQ(parts.jobs.waiting().size(), 1U);
  EXPECT_TRUE(parts.jobs.running().empty());
  EXPECT_EQ(parts.record(*job)->lane.tokens, (TokenIds{1, 2, 3}));
  parts.jobs.admit(*parts.record(*job), 0);
  EXPECT_TRUE(parts.record(*job)->holds_pages());
  EXPECT_EQ(parts.jobs.waiting().size(), 1U) << "it moves with move_admitted";
  parts.jobs.move_admitted();
  EXPECT_EQ(parts.jobs.running().size(), 1U);
  EXPECT_TRUE(parts.jobs.waiting().empty());
}

TEST_F(LiveJobsTest, APreemptedJobWaitsAgainWithoutPages) {
  const auto job = parts.submit(greedy({1, 2, 3}, 4));
  parts.jobs.admit(*parts.record(*job), 0);
  parts.jobs.move_admitted();
  parts.jobs.preempt(*parts.record(*job));
  EXPECT_FALSE(parts.record(*job)->holds_pages());
  EXPECT_EQ(parts.record(*job)->result.preemptions, 1);
  ASSERT_EQ(parts.jobs.waiting().size(), 1U);
  EXPECT_EQ(parts.jobs.waiting().front()->id, job->id());
}

TEST_F(LiveJobsTest, AnEndedJobIsAnnouncedBySweep) {
  const auto job = parts.submit(greedy({1}, 4));
  parts.jobs.end(*parts.record(*job), FinishReason::cancelled, ErrorCode::ok, {});
  EXPECT_EQ(job->state(), JobState::queued);
  parts.jobs.sweep();
  EXPECT_TRUE(parts.jobs.empty());
  EXPECT_EQ(parts.record(*job), nullptr);
  EXPECT_EQ(job->state(), JobState::finished);
  EXPECT_EQ(read_all(*job).terminal.reason, FinishReason::cancelled);
}

TEST_F(LiveJobsTest, ACancelledJobEndsWhenTheQueueIsTaken) {
  const auto job = parts.submit(greedy({1}, 4));
  const auto other = parts.submit(greedy({1}, 4));
  job->cancel();
  parts.take_in();
  EXPECT_EQ(parts.record(*job), nullptr);
  EXPECT_NE(parts.record(*other), nullptr);
}

TEST_F(LiveJobsTest, ADeadlineEndsAJob) {
  JobRequest request = greedy({1}, 4);
  request.queue_deadline = std::chrono::milliseconds(5);
  const auto job = parts.submit(request);
  EXPECT_EQ(parts.jobs.next_event(), parts.clock.now() + request.queue_deadline);
  parts.jobs.read_clock();
  parts.jobs.sweep();
  EXPECT_NE(parts.record(*job), nullptr);
  parts.clock.advance(request.queue_deadline);
  parts.jobs.read_clock();
  parts.jobs.sweep();
  EXPECT_EQ(parts.record(*job), nullptr);
  EXPECT_EQ(job->result().error, ErrorCode::deadline);
}

TEST_F(LiveJobsTest, FailAllEndsEachJobWithTheError) {
  const auto running = parts.submit(greedy({1}, 4));
  parts.jobs.admit(*parts.record(*running), 0);
  parts.jobs.move_admitted();
  const auto waiting = parts.submit(greedy({2}, 4));
  parts.jobs.fail_all(ErrorCode::out_of_memory, "no memory");
  parts.jobs.sweep();
  EXPECT_TRUE(parts.jobs.empty());
  for (const auto& job : {running, waiting}) EXPECT_EQ(job->result().error, ErrorCode::out_of_memory);
}

TEST_F(LiveJobsTest, ChangesAreCounted) {
  const uint64_t before = parts.jobs.num_changes();
  parts.take_in();
  EXPECT_EQ(parts.jobs.num_changes(), before) << "an empty queue changes nothing";
  parts.submit(greedy({1}, 4));
  EXPECT_GT(parts.jobs.num_changes(), before);
}

}  // namespace
}  // namespace quire::testing
