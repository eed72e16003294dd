// Draws and their check, before anything of a step takes effect.
#include "core/engine/loop/verify.h"

#include "tests/core/engine/loop/loop_parts.h"

namespace quire::testing {
namespace {

class VerifyTest : public ::testing::Test {
 protected:
  LoopParts parts;
  const TokenIds expected = fake_greedy(kPrompt, 8, kVocab);
};

TEST_F(VerifyTest, TheNextTokenIsDrawnAndTheJobIsUnchanged) {
  const auto job = parts.submit(greedy(kPrompt, 8));
  ASSERT_TRUE(parts.verify_step());
  const JobRecord& record = *parts.record(*job);
  EXPECT_EQ(drawn_tokens(record), TokenIds{expected[0]});
  EXPECT_EQ(record.step.finish, FinishReason::unfinished);
  EXPECT_EQ(record.lane.tokens, kPrompt);
  EXPECT_EQ(record.num_new_tokens(), 0);
  EXPECT_FALSE(parts.plan.lanes[0].faulted);
}

TEST_F(VerifyTest, DraftTokensAreAcceptedUpToTheFirstWrongOne) {
  const auto job = parts.submit(greedy(kPrompt, 8));
  ASSERT_TRUE(parts.step());
  const TokenId wrong = (expected[3] + 1) % kVocab;
  parts.record(*job)->propose(TokenIds{expected[1], expected[2], wrong});
  ASSERT_TRUE(parts.verify_step());
  EXPECT_EQ(drawn_tokens(*parts.record(*job)), (TokenIds{expected[1], expected[2], expected[3]}));
  EXPECT_EQ(parts.plan.lanes[0].num_accepted, 3) << "the last token and two draft tokens";
  EXPECT_EQ(parts.record(*job)->num_new_tokens(), 1);
}

TEST_F(VerifyTest, AStopTokenEndsTheJob) {
  JobRequest request = greedy(kPrompt, 8);
  request.stop_tokens = {expected[0]};
  const auto job = parts.submit(request);
  ASSERT_TRUE(parts.verify_step());
  EXPECT_EQ(parts.record(*job)->step.finish, FinishReason::stop_token);
}

TEST_F(VerifyTest, ARowThatIsNotFiniteIsAFaultOfItsJobAlone) {
  const auto bad = parts.submit(greedy({9, 8}, 8));
  const auto good = parts.submit(greedy(kPrompt, 8));
  parts.executor.nan_token = 9;
  ASSERT_TRUE(parts.verify_step());
  EXPECT_EQ(parts.record(*bad)->step.error, ErrorCode::numeric);
  EXPECT_EQ(parts.record(*good)->step.error, ErrorCode::ok);
  EXPECT_EQ(drawn_tokens(*parts.record(*good)), TokenIds{expected[0]});
  for (const PlannedLane& planned : parts.plan.lanes)
    EXPECT_EQ(planned.faulted, planned.lane->job == parts.record(*bad));
}

TEST_F(VerifyTest, AScoreReadsEveryRow) {
  JobRequest request = greedy(kPrompt, 1);
  request.kind = JobKind::score;
  const auto job = parts.submit(request);
  ASSERT_TRUE(parts.verify_step());
  EXPECT_EQ(parts.record(*job)->step.scores.size(), kPrompt.size() - 1);
  EXPECT_EQ(parts.record(*job)->step.finish, FinishReason::completed);
}

}  // namespace
}  // namespace quire::testing
