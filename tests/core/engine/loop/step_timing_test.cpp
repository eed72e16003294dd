// When a step may begin, and when it is aborted.
#include "core/engine/loop/step_timing.h"

#include "tests/core/engine/loop/loop_parts.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

class StepTimingTest : public ::testing::Test {
 protected:
  LoopParts parts;
};

TEST_F(StepTimingTest, AStepNeedsAJob) {
  EXPECT_FALSE(parts.timing.may_begin(parts.jobs));
  const auto job = parts.submit(greedy({1, 2}, 4));
  EXPECT_TRUE(parts.timing.may_begin(parts.jobs)) << "no other engine computes";
}

TEST_F(StepTimingTest, WithoutStretchAStepHasAllTokensOfTheDevice) {
  EXPECT_EQ(parts.timing.step_tokens(4, 1), parts.jobs.context().policy.max_step_tokens);
}

TEST_F(StepTimingTest, AStepIsAbortedWhenMostOfItsTokensAreCancelled) {
  const auto large = parts.submit(greedy({1, 2, 3, 4, 5, 6}, 4));
  const auto small = parts.submit(greedy({1}, 4));
  ASSERT_TRUE(parts.planning.plan(parts.plan));
  const Reservation reservation = parts.pages.kv().reserve(parts.plan);
  parts.timing.begin(parts.clock.now(), {});
  small->cancel();
  parts.timing.pause_or_cancel();
  EXPECT_FALSE(parts.timing.was_aborted());
  large->cancel();
  expect_error(ErrorCode::cancelled, {"aborted"}, [&] { parts.timing.pause_or_cancel(); });
  EXPECT_TRUE(parts.timing.was_aborted());
  parts.timing.end();
  parts.timing.begin(parts.clock.now(), {});
  EXPECT_FALSE(parts.timing.was_aborted()) << "the next step is another one";
}

TEST_F(StepTimingTest, AStepIsAbortedWhenTheEngineCloses) {
  const auto job = parts.submit(greedy({1, 2}, 4));
  ASSERT_TRUE(parts.planning.plan(parts.plan));
  parts.timing.begin(parts.clock.now(), {});
  parts.thread().queue().shut(ErrorCode::closed, "closed");
  expect_error(ErrorCode::cancelled, {}, [&] { parts.timing.pause_or_cancel(); });
}

TEST_F(StepTimingTest, ADeviceThatComputesWithinTheCallIsAlwaysDue) {
  EXPECT_TRUE(parts.timing.is_due(true));
  EXPECT_FALSE(parts.timing.is_due(false)) << "no other engine waits";
}

TEST_F(StepTimingTest, TheFastestStepIsRemembered) {
  const auto job = parts.submit(greedy({1, 2, 3, 4}, 4));
  ASSERT_TRUE(parts.timing.may_begin(parts.jobs));
  parts.timing.begin(parts.clock.now(), {});
  parts.clock.advance(std::chrono::milliseconds(8));
  parts.timing.end_turn(4, 1, false);
  parts.timing.end();
  EXPECT_EQ(parts.timing.watch().fastest().any, std::chrono::milliseconds(8));
}

}  // namespace
}  // namespace quire::testing
