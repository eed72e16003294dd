// Passes that are issued while the step before them runs.
#include "core/engine/loop/look_ahead.h"

#include "tests/core/engine/loop/loop_parts.h"

namespace quire::testing {
namespace {

class LookAheadTest : public ::testing::Test {
 protected:
  // Takes a step to its end, and issues the pass after it.
  void step_and_follow() {
    parts.jobs.read_clock();
    if (!parts.ahead.resume(parts.plan)) {
      ASSERT_TRUE(parts.planning.plan(parts.plan));
    }
    Reservation reservation = parts.pages.kv().reserve(parts.plan);
    build_batch(parts.plan, reservation.copies(), table_shape(parts.executor.limits(), parts.pages.kv()),
                parts.batch);
    const Ticket ticket = parts.ahead.forward(parts.plan, parts.batch);
    parts.sampling.draw(parts.plan, ticket);
    parts.ahead.follow(parts.plan, parts.batch);
    const Drawn drawn = parts.executor.wait(ticket);
    parts.ahead.settle(drawn);
    parts.verify.verify(parts.plan, drawn);
    reservation.commit();
    parts.commit.commit(parts.plan);
    parts.jobs.sweep();
  }

  LoopParts parts{{.draws_on_device = true}};
};

TEST_F(LookAheadTest, NothingIsIssuedBeforeTheFirstStep) {
  EXPECT_FALSE(parts.ahead.has_issued());
  EXPECT_FALSE(parts.ahead.resume(parts.plan));
}

TEST_F(LookAheadTest, TheIssuedPassIsTheNextStep) {
  const auto job = parts.submit(greedy(kPrompt, 6));
  for (int32_t i = 0; i < 5; ++i) {
    step_and_follow();
    EXPECT_TRUE(parts.ahead.has_issued()) << i;
  }
  step_and_follow();
  EXPECT_FALSE(parts.ahead.has_issued()) << "the job has all its tokens";
  EXPECT_EQ(parts.executor.num_followed(), 5);
  EXPECT_EQ(parts.executor.num_discarded(), 0);
  EXPECT_EQ(read_all(*job).tokens, fake_greedy(kPrompt, 6, kVocab));
}

TEST_F(LookAheadTest, APassOfAnEndedJobIsDropped) {
  const auto job = parts.submit(greedy(kPrompt, 6));
  step_and_follow();
  ASSERT_TRUE(parts.ahead.has_issued());
  parts.jobs.end(*parts.record(*job), FinishReason::cancelled, ErrorCode::ok, {});
  parts.jobs.sweep();
  const uint64_t changes = parts.jobs.num_changes();
  EXPECT_FALSE(parts.ahead.resume(parts.plan));
  EXPECT_FALSE(parts.ahead.has_issued());
  EXPECT_GT(parts.jobs.num_changes(), changes) << "a waiting job may begin";
}

TEST_F(LookAheadTest, TheOtherJobsOfAPassKeepIt) {
  const auto first = parts.submit(greedy(kPrompt, 6));
  const auto second = parts.submit(greedy({7, 8, 9}, 6));
  step_and_follow();
  ASSERT_TRUE(parts.ahead.has_issued());
  parts.jobs.end(*parts.record(*first), FinishReason::cancelled, ErrorCode::ok, {});
  parts.jobs.sweep();
  for (int32_t i = 0; i < 5; ++i) step_and_follow();
  EXPECT_EQ(read_all(*second).tokens, fake_greedy({7, 8, 9}, 6, kVocab));
  EXPECT_GE(parts.executor.num_followed(), 5);
}

TEST_F(LookAheadTest, AWaitingJobStopsIssuing) {
  const auto job = parts.submit(greedy(kPrompt, 6));
  step_and_follow();
  const auto late = parts.submit(greedy({7, 8, 9}, 6));
  step_and_follow();
  EXPECT_FALSE(parts.ahead.has_issued()) << "the waiting job may begin with the next step";
  step_and_follow();
  EXPECT_EQ(parts.plan.num_jobs(), 2);
}

TEST_F(LookAheadTest, AJobThatTheHostDrawsForIsNotIssued) {
  JobRequest request = greedy(kPrompt, 6);
  request.want_log_probs = true;
  request.num_top_log_probs = 2;
  const auto job = parts.submit(request);
  step_and_follow();
  EXPECT_FALSE(parts.ahead.has_issued());
}

}  // namespace
}  // namespace quire::testing
