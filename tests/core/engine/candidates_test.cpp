// Draft tokens are verified in one step, whatever happens to their job before it (speculative decoding).
#include <algorithm>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "core/engine/loop/live_jobs.h"
#include "tests/support/engine_fakes.h"
#include "tests/support/one_text.h"

namespace quire::testing {
namespace {

class CandidatesTest : public ::testing::Test {
 protected:
  static FakeEngineOptions by_hand() {
    FakeEngineOptions options;
    options.cache.start_thread = false;
    return options;
  }
  JobRecord& record(const Job& job) { return *engine_.cache->thread().loop().jobs().find(job.id()); }
  void run_once() { EXPECT_EQ(engine_.cache->thread().run_once(), StepOutcome::advanced); }
  TokenIds next(size_t first, size_t count) const {
    const auto begin = expected_.begin() + static_cast<ptrdiff_t>(first);
    return {begin, begin + static_cast<ptrdiff_t>(count)};
  }

  const TokenIds prompt_{1, 2, 3, 4, 5};
  const TokenIds expected_ = fake_greedy(prompt_, 12, kVocab);
  FakeEngine engine_{by_hand()};
};

TEST_F(CandidatesTest, CorrectDraftTokensAreAcceptedInOneStep) {
  const auto job = engine_.cache->submit(greedy(prompt_, 12));
  run_once();
  record(*job).propose(next(1, 3));
  run_once();
  EXPECT_EQ(job->result().new_tokens, 5) << "three, and the one after them";
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, expected_);
  EXPECT_EQ(engine_.cache->stats().draft_tokens_accepted, 3U);
}

TEST_F(CandidatesTest, TokensAfterAWrongDraftTokenAreDropped) {
  const auto job = engine_.cache->submit(greedy(prompt_, 12));
  run_once();
  TokenIds wrong = next(1, 3);
  wrong[1] = (wrong[1] + 1) % kVocab;
  record(*job).propose(wrong);
  run_once();
  EXPECT_EQ(job->result().new_tokens, 3);
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, expected_);
}

TEST_F(CandidatesTest, AForkAndARewindIgnoreDraftTokens) {
  const auto job = engine_.cache->submit(greedy(prompt_, 12));
  for (int32_t i = 0; i < 4; ++i) run_once();
  record(*job).propose(TokenIds{7, 7, 7});
  const auto child = job->fork({});
  job->rewind(1);
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*child).tokens, next(4, 8));
  TokenIds said = next(0, 4);
  const TokenIds again = next(1, 11);
  said.insert(said.end(), again.begin(), again.end());
  EXPECT_EQ(read_all(*job).tokens, said);
}

// The row after the token that completes the stop string is not finite.
TEST_F(CandidatesTest, AFaultAfterTheEndDoesNotUndoTheEnd) {
  JobRequest request = greedy(prompt_, 12);
  request.stop_strings = {fake_text(next(1, 3))};
  const auto job = engine_.cache->submit(request);
  run_once();
  engine_.executor->nan_token = expected_[3];
  record(*job).propose(next(1, 4));
  engine_.run_to_idle();
  EXPECT_EQ(job->result().reason, FinishReason::stop_string) << job->result().message;
}

TEST_F(CandidatesTest, AFaultAfterTheAcceptedTokensShowsInTheNextStep) {
  JobRequest request = greedy(prompt_, 12);
  request.constraint = std::make_shared<OneText>(expected_);
  const auto job = engine_.cache->submit(request);
  run_once();
  engine_.executor->nan_token = expected_[2];
  record(*job).propose(next(1, 4));
  engine_.run_to_idle();
  EXPECT_EQ(job->result().error, ErrorCode::numeric) << job->result().message;
}

// Draft tokens are computed even if another job cached the same text, because their rows show whether they
// are right.
TEST_F(CandidatesTest, DraftTokensAreComputedEvenIfTheCacheHasThem) {
  TokenIds longer = prompt_;
  longer.insert(longer.end(), expected_.begin(), expected_.end());
  const auto before = engine_.cache->submit(greedy(longer, 1));
  engine_.run_to_idle();
  EXPECT_EQ(before->result().reason, FinishReason::max_new_tokens);
  const auto job = engine_.cache->submit(greedy(prompt_, 12));
  for (size_t said = 1; said < 9; said += 4) {
    run_once();
    record(*job).propose(next(said, 3));
    run_once();
  }
  engine_.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, expected_);
}

// The rows after draft tokens are drawn on the device, so that no row of logits comes to the host.
TEST_F(CandidatesTest, TheDeviceDrawsAfterEachDraftToken) {
  FakeEngineOptions options = by_hand();
  make_drawing(options.limits);
  FakeEngine engine(options);
  JobRequest request = greedy(prompt_, 12);
  request.sampling.temperature = 1.0F;
  request.sampling.seed = 3;
  request.sampling.repetition_penalty = 1.4F;
  request.sampling.frequency_penalty = 0.3F;
  const auto plain = engine.cache->submit(request);
  engine.run_to_idle();
  const TokenIds expected = read_all(*plain).tokens;
  const auto job = engine.cache->submit(request);
  engine.cache->thread().run_once();
  const int64_t num_drawn = engine.executor->num_rows_drawn();
  TokenIds drafts(expected.begin() + 1, expected.begin() + 5);
  drafts[3] = (drafts[3] + 1) % kVocab;
  engine.cache->thread().loop().jobs().find(job->id())->propose(drafts);
  engine.cache->thread().run_once();
  EXPECT_EQ(engine.executor->num_rows_drawn() - num_drawn, 5);
  EXPECT_EQ(job->result().accepted_draft_tokens, 3);
  EXPECT_EQ(job->result().new_tokens, 5);
  engine.run_to_idle();
  EXPECT_EQ(read_all(*job).tokens, expected);
}

TEST_F(CandidatesTest, DraftTokensWaitForAStepThatFitsAllOfThem) {
  FakeEngineOptions options = by_hand();
  options.cache.max_chunk_tokens = 5;
  FakeEngine engine(options);
  const auto first = engine.cache->submit(greedy({9, 9}, 3));
  const auto job = engine.cache->submit(greedy(prompt_, 12));
  while (job->result().new_tokens == 0) engine.cache->thread().run_once();
  const auto num_new = static_cast<size_t>(job->result().new_tokens);
  engine.cache->thread().loop().jobs().find(job->id())->propose(next(num_new, 4));
  engine.run_to_idle();
  EXPECT_EQ(read_all(*first).tokens, fake_greedy({9, 9}, 3, kVocab));
  EXPECT_EQ(read_all(*job).tokens, expected_);
}

}  // namespace
}  // namespace quire::testing
