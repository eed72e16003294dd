// Effects of a step on jobs, pages and events.
#include "core/engine/loop/commit.h"

#include "tests/core/engine/loop/loop_parts.h"

namespace quire::testing {
namespace {

class CommitTest : public ::testing::Test {
 protected:
  LoopParts parts;
  const TokenIds expected = fake_greedy(kPrompt, 8, kVocab);
};

TEST_F(CommitTest, TokensPagesAndEventsFollowTheStep) {
  const auto job = parts.submit(greedy(kPrompt, 8));
  ASSERT_TRUE(parts.step());
  const JobRecord& record = *parts.record(*job);
  EXPECT_EQ(record.num_new_tokens(), 1);
  EXPECT_EQ(record.lane.tokens.back(), expected[0]);
  EXPECT_EQ(parts.pages.kv().length(*record.lane.sequence), 5);
  EXPECT_TRUE(record.announced);
  const Transcript transcript = read_all(*job);
  EXPECT_EQ(transcript.num_started, 1);
  EXPECT_EQ(transcript.tokens, TokenIds{expected[0]});
  EXPECT_EQ(transcript.text, fake_text({expected[0]}));
}

TEST_F(CommitTest, AFaultEndsItsJobWithoutTokens) {
  const auto job = parts.submit(greedy({9, 8}, 8));
  parts.executor.nan_token = 9;
  ASSERT_TRUE(parts.step());
  EXPECT_EQ(parts.record(*job), nullptr);
  EXPECT_EQ(job->result().error, ErrorCode::numeric);
  EXPECT_TRUE(read_all(*job).tokens.empty());
}

TEST_F(CommitTest, AStopStringEndsTheJobBeforeItsText) {
  JobRequest request = greedy(kPrompt, 8);
  request.stop_strings = {fake_text({expected[1], expected[2]})};
  const auto job = parts.submit(request);
  while (parts.step()) {
  }
  const Transcript transcript = read_all(*job);
  EXPECT_EQ(transcript.terminal.reason, FinishReason::stop_string);
  EXPECT_EQ(transcript.text, fake_text({expected[0]}));
}

TEST_F(CommitTest, AcceptedDraftTokensAreCounted) {
  const auto job = parts.submit(greedy(kPrompt, 8));
  ASSERT_TRUE(parts.step());
  parts.record(*job)->propose(TokenIds{expected[1], (expected[2] + 1) % kVocab});
  ASSERT_TRUE(parts.step());
  EXPECT_EQ(job->result().draft_tokens, 2);
  EXPECT_EQ(job->result().accepted_draft_tokens, 1);
  EXPECT_EQ(job->result().accepted_by_position, (AcceptedByPosition{1}));
  EXPECT_EQ(job->result().new_tokens, 3);
  while (parts.step()) {
  }
  EXPECT_EQ(read_all(*job).terminal.usage.accepted_by_position, (AcceptedByPosition{1}));
}

}  // namespace
}  // namespace quire::testing
