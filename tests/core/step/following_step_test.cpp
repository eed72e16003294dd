// What counts as the step that was issued ahead.
#include "core/step/following_step.h"

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

constexpr int32_t kPagesEach = 3;

kernels::SampleRow draw_of(int32_t sequence) {
  kernels::SampleRow row;
  row.logit_row = sequence;
  row.temperature = 0.5F;
  row.random_bits = 1000 + static_cast<uint64_t>(sequence);
  return row;
}

// Sequences of 5, 6, ... tokens, on pages of their own. The first one is in the middle of its prompt.
Batch first_step(int32_t num_sequences) {
  Batch batch;
  batch.sequence_starts = {0};
  batch.page_table_stride = kPagesEach;
  batch.draws.vocab_size = 100;
  for (int32_t s = 0; s < num_sequences; ++s) {
    batch.kv_lengths.push_back(5 + s);
    for (int32_t t = s == 0 ? 3 : 1; t > 0; --t) {
      batch.token_ids.push_back(7);
      batch.positions.push_back(5 + s - t);
      batch.sequence_of_token.push_back(s);
    }
    batch.sequence_starts.push_back(batch.num_tokens());
    batch.logit_rows.push_back(batch.num_tokens() - 1);
    for (int32_t page = 0; page < kPagesEach; ++page) batch.page_table.push_back(10 * s + page);
  }
  return batch;
}

Batch next_step(int32_t num_sequences) {
  Batch next;
  continue_batch(first_step(num_sequences), next);
  for (int32_t s = 0; s < num_sequences; ++s) next.draws.rows.push_back(draw_of(s));
  return next;
}

std::vector<kernels::SampleOutcome> drawn(const std::vector<TokenId>& tokens) {
  std::vector<kernels::SampleOutcome> outcomes;
  outcomes.reserve(tokens.size());
  for (const TokenId token : tokens) outcomes.push_back({token, 0.0F, kernels::SampleStatus::drawn});
  return outcomes;
}

// What the engine builds once it knows the tokens, of the sequences that are still there.
Batch asked_for(const std::vector<int32_t>& sequences, const std::vector<TokenId>& tokens) {
  const Batch next = next_step(4);
  Batch batch;
  batch.sequence_starts = {0};
  batch.page_table_stride = kPagesEach;
  batch.draws.vocab_size = 100;
  for (const int32_t s : sequences) {
    const auto i = static_cast<size_t>(s);
    const auto row = static_cast<int32_t>(batch.kv_lengths.size());
    batch.token_ids.push_back(tokens[i]);
    batch.positions.push_back(next.positions[i]);
    batch.sequence_of_token.push_back(row);
    batch.kv_lengths.push_back(next.kv_lengths[i]);
    batch.sequence_starts.push_back(row + 1);
    batch.logit_rows.push_back(row);
    batch.draws.rows.push_back(draw_of(s));
    batch.draws.rows.back().logit_row = row;
    for (int32_t page = 0; page < kPagesEach; ++page) batch.page_table.push_back(10 * s + page);
  }
  return batch;
}

class FollowingStepTest : public ::testing::Test {
 protected:
  void SetUp() override { following_.hold(next_step(4)); }
  bool covers(const Batch& batch) { return following_.covers(batch, drawn(kTokens)); }

  const std::vector<TokenId> kTokens{40, 41, 42, 43};
  FollowingStep following_;
};

TEST_F(FollowingStepTest, ContinuesEachSequenceByOneToken) {
  const Batch next = next_step(4);
  EXPECT_EQ(next.num_tokens(), 4);
  EXPECT_EQ(next.positions, (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(next.kv_lengths, (std::vector<int32_t>{6, 7, 8, 9}));
  EXPECT_EQ(next.sequence_starts, (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(next.logit_rows, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(next.page_table, first_step(4).page_table);
}

TEST_F(FollowingStepTest, CoversItselfAndWhatIsLeftOfIt) {
  EXPECT_TRUE(covers(asked_for({0, 1, 2, 3}, kTokens)));
  EXPECT_TRUE(following_.is_whole());
  EXPECT_TRUE(covers(asked_for({1, 3}, kTokens)));
  EXPECT_FALSE(following_.is_whole());
  EXPECT_EQ(std::vector<int32_t>(following_.rows().begin(), following_.rows().end()),
            (std::vector<int32_t>{1, 3}));
}

TEST_F(FollowingStepTest, CoversNothingElse) {
  EXPECT_FALSE(covers(asked_for({0, 1, 2, 3}, {40, 41, 9, 43}))) << "another token";
  EXPECT_FALSE(covers(asked_for({2, 1}, kTokens))) << "another order";
  EXPECT_FALSE(covers(asked_for({0, 1, 2, 3, 3}, kTokens))) << "one more";
  Batch batch = asked_for({0, 2}, kTokens);
  batch.positions[1] = batch.positions[1] - 1;
  EXPECT_FALSE(covers(batch)) << "another place";
  batch = asked_for({0, 2}, kTokens);
  batch.page_table[kPagesEach + 1] = 99;
  EXPECT_FALSE(covers(batch)) << "another page";
  batch = asked_for({0, 2}, kTokens);
  ++batch.draws.rows[1].random_bits;
  EXPECT_FALSE(covers(batch)) << "another draw";
  batch = asked_for({0, 2}, kTokens);
  batch.draws.vocab_size = 99;
  EXPECT_FALSE(covers(batch)) << "another vocabulary";
  batch = asked_for({0, 2}, kTokens);
  batch.copies.push_back({PageId{1}, PageId{2}, 3});
  EXPECT_FALSE(covers(batch)) << "a copy";
  batch = asked_for({0, 2}, kTokens);
  batch.draws.rows.pop_back();
  EXPECT_FALSE(covers(batch)) << "a row for the host";
  batch = asked_for({0, 2}, kTokens);
  batch.wants_hidden = true;
  EXPECT_FALSE(covers(batch)) << "states";
  following_.drop();
  EXPECT_FALSE(covers(asked_for({0, 1, 2, 3}, kTokens))) << "dropped";
}

}  // namespace
}  // namespace quire::testing
