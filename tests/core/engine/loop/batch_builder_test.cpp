// Conversion of lanes to the arrays of a batch.
#include "core/engine/loop/batch_builder.h"

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

constexpr int32_t kPageTokens = 4;

// Lane with the tokens 10, 11, ... and the pages first_page, first_page + 1, ...
class TestLane {
 public:
  TestLane(int32_t num_tokens, int32_t first_page, int32_t num_pages) {
    for (int32_t i = 0; i < num_tokens; ++i) lane_.tokens.push_back(10 + i);
    for (int32_t i = 0; i < num_pages; ++i) pages_.push_back({first_page + i});
  }

  PlannedLane from(int32_t start) {
    PlannedLane planned;
    planned.lane = &lane_;
    planned.start = start;
    planned.num_tokens = static_cast<int32_t>(lane_.tokens.size()) - start;
    planned.pages = pages_;
    return planned;
  }

 private:
  Lane lane_;
  std::vector<PageId> pages_;
};

TEST(BatchBuilderTest, TheTableIsAsWideAsTheLongestLaneOfTheStep) {
  TestLane longer(9, 20, 5);  // two pages more than its tokens fill
  TestLane shorter(4, 7, 1);
  StepPlan plan;
  plan.lanes = {longer.from(8), shorter.from(1)};
  Batch batch;
  batch.page_table.assign(100, 99);
  build_batch(plan, {}, {kPageTokens, {}}, batch);
  EXPECT_EQ(batch.page_table_stride, 3);
  EXPECT_EQ(batch.page_table, (std::vector<int32_t>{20, 21, 22, 7, 0, 0}));
}

TEST(BatchBuilderTest, LanesAreConcatenated) {
  TestLane first(6, 0, 2);
  TestLane second(3, 2, 1);
  StepPlan plan;
  plan.lanes = {first.from(5), second.from(0)};
  plan.lanes[1].num_rows = 2;
  plan.lanes[0].drawn_row = 4;
  Batch batch;
  build_batch(plan, {}, {kPageTokens, {}}, batch);
  EXPECT_EQ(batch.token_ids, (std::vector<TokenId>{0, 10, 11, 12}))
      << "the first is drawn by the pass before";
  EXPECT_EQ(batch.drawn_rows, (std::vector<int32_t>{4, -1, -1, -1}));
  EXPECT_EQ(batch.positions, (std::vector<int32_t>{5, 0, 1, 2}));
  EXPECT_EQ(batch.sequence_of_token, (std::vector<int32_t>{0, 1, 1, 1}));
  EXPECT_EQ(batch.sequence_starts, (std::vector<int32_t>{0, 1, 4}));
  EXPECT_EQ(batch.kv_lengths, (std::vector<int32_t>{6, 3}));
  EXPECT_EQ(batch.logit_rows, (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(plan.lanes[1].first_token, 1);
  EXPECT_EQ(plan.lanes[1].first_row, 1);
}

}  // namespace
}  // namespace quire::testing
