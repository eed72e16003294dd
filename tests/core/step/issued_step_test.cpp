// Which batches match the pass that was issued ahead.
#include "core/step/issued_step.h"

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

constexpr int32_t kPageTokens = 4;
constexpr int32_t kPagesEach = 4;

struct Piece {
  int32_t sequence;  // its pages are 10 * sequence + 0, 1, ...
  int32_t start;
  std::vector<TokenId> tokens;
  int32_t drawn_row = -1;  // of its last token
};

Batch batch_of(const std::vector<Piece>& pieces) {
  Batch batch;
  batch.sequence_starts = {0};
  batch.page_table_stride = kPagesEach;
  for (const Piece& piece : pieces) {
    int32_t position = piece.start;
    for (const TokenId token : piece.tokens) {
      batch.sequence_of_token.push_back(batch.num_sequences());
      batch.token_ids.push_back(token);
      batch.positions.push_back(position++);
      batch.drawn_rows.push_back(-1);
    }
    batch.drawn_rows.back() = piece.drawn_row;
    batch.logit_rows.push_back(batch.num_tokens() - 1);
    batch.sequence_starts.push_back(batch.num_tokens());
    batch.kv_lengths.push_back(position);
    for (int32_t page = 0; page < kPagesEach; ++page) batch.page_table.push_back(10 * piece.sequence + page);
  }
  return batch;
}

// Three sequences that continue with the draws of rows 0, 1 and 2, and between them a chunk of a prompt.
class IssuedStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    issued_.batch() = batch_of({{0, 5, {0}, 0}, {1, 4, {7, 8, 9}}, {2, 6, {0}, 1}, {3, 3, {0}, 2}});
    issued_.issued(Ticket{9});
  }
  void settle() {
    std::vector<kernels::SampleOutcome> outcomes;
    for (const TokenId token : {40, 42, 43}) outcomes.push_back({token, 0.0F, kernels::SampleStatus::drawn});
    issued_.settle(outcomes);
  }
  std::vector<int32_t> rows() const { return {issued_.rows().begin(), issued_.rows().end()}; }

  const Piece first_{0, 5, {40}}, prompt_{1, 4, {7, 8, 9}}, second_{2, 6, {42}}, third_{3, 3, {43}};
  IssuedStep issued_{kPageTokens};
};

TEST_F(IssuedStepTest, CoversItselfAndItsSubsets) {
  settle();
  EXPECT_TRUE(issued_.covers(batch_of({first_, prompt_, second_, third_})));
  EXPECT_EQ(rows(), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(issued_.covers(batch_of({prompt_, third_})));
  EXPECT_EQ(rows(), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(issued_.ticket(), Ticket{9});
}

TEST_F(IssuedStepTest, CoversASubsetWithANarrowerTable) {
  settle();
  Batch narrower = batch_of({third_});
  narrower.page_table_stride = 1;
  narrower.page_table.resize(1);
  EXPECT_TRUE(issued_.covers(narrower));
  narrower.page_table.front() += 1;
  EXPECT_FALSE(issued_.covers(narrower)) << "another page";
}

TEST_F(IssuedStepTest, CoversNothingBeforeItsTokensAreKnown) {
  EXPECT_FALSE(issued_.covers(batch_of({{0, 5, {0}}})));
  settle();
  issued_.issued(Ticket{10});
  EXPECT_FALSE(issued_.covers(batch_of({first_})));
}

TEST_F(IssuedStepTest, CoversNoOtherBatch) {
  settle();
  EXPECT_FALSE(issued_.covers(batch_of({{0, 5, {41}}}))) << "another token";
  EXPECT_FALSE(issued_.covers(batch_of({second_, first_}))) << "another order";
  EXPECT_FALSE(issued_.covers(batch_of({third_, third_}))) << "one more";
  EXPECT_FALSE(issued_.covers(batch_of({{0, 4, {40}}}))) << "another place";
  EXPECT_FALSE(issued_.covers(batch_of({{1, 4, {7, 8}}}))) << "a shorter piece";
  EXPECT_FALSE(issued_.covers(batch_of({{4, 5, {40}}}))) << "other pages";
  Batch batch = batch_of({first_});
  batch.copies.push_back({PageId{1}, PageId{2}, 3});
  EXPECT_FALSE(issued_.covers(batch)) << "a copy";
  batch = batch_of({first_});
  batch.wants_hidden = true;
  EXPECT_FALSE(issued_.covers(batch)) << "states";
  batch = batch_of({prompt_});
  batch.logit_rows = {1, 2};
  EXPECT_FALSE(issued_.covers(batch)) << "another row of logits";
  issued_.drop();
  EXPECT_FALSE(issued_.covers(batch_of({first_}))) << "dropped";
}

TEST_F(IssuedStepTest, PagesWithoutTokensDoNotMatter) {
  settle();
  Batch batch = batch_of({first_});
  batch.page_table[2] = 99;  // six tokens fill two pages
  EXPECT_TRUE(issued_.covers(batch));
  batch.page_table[1] = 99;
  EXPECT_FALSE(issued_.covers(batch));
}

}  // namespace
}  // namespace quire::testing
