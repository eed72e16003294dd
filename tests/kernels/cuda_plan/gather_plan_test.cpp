// Plans of all-gathers: what peers write fits into the inbox, and every unit lies within one slice.
#include "kernels/cuda/plan/gather_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

std::vector<int32_t> random_starts(std::mt19937& random, int32_t shards, int32_t columns) {
  std::vector<int32_t> starts;
  for (int32_t r = 1; r < shards; ++r)
    starts.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(columns + 1)));
  starts.push_back(0);
  starts.push_back(columns);
  std::sort(starts.begin(), starts.end());
  return starts;
}

// Bytes of the slice of a shard in a number of rows.
uint64_t slice_bytes(const std::vector<int32_t>& starts, size_t rank, int32_t rows, int32_t element) {
  return static_cast<uint64_t>(starts[rank + 1] - starts[rank]) * static_cast<uint64_t>(rows * element);
}

void expect_fits(const InboxLayout& layout, const std::vector<int32_t>& starts, const GatherPlan& plan,
                 int32_t rows, int32_t element) {
  ASSERT_GE(plan.blocks, 1);
  ASSERT_GE(int64_t{plan.rounds} * plan.rows_per_round, rows);
  uint64_t end = 0;
  for (size_t r = 0; r + 1 < starts.size(); ++r) {
    EXPECT_EQ(starts[r] * element % plan.unit_bytes, 0);
    const uint64_t bytes = slice_bytes(starts, r, plan.rows_per_round, element);
    if (plan.is_inline) {
      const uint64_t words = bytes / static_cast<uint64_t>(std::min(plan.unit_bytes, 4));
      EXPECT_LE(words, layout.source_words);
      EXPECT_LE(bytes, kInlineBytes);
    } else {
      const uint64_t first = slice_offset(plan.rows_per_round, starts[r] * element, static_cast<int32_t>(r));
      EXPECT_EQ(first % 16, 0U);
      EXPECT_GE(first, end);
      end = first + bytes;
      EXPECT_LE(end, layout.round_bytes);
    }
  }
}

TEST(GatherPlan, FitsIntoTheInbox) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto shards = static_cast<int32_t>(2 + random() % (kMaxGatherShards - 1));
    const auto columns = static_cast<int32_t>(shards + random() % 9000);
    const auto rows = static_cast<int32_t>(1 + random() % 2048);
    const int32_t element = random() % 2 == 0 ? 2 : 4;
    const std::vector<int32_t> starts = random_starts(random, shards, columns);
    const ColumnSplit split = {starts.data(), shards, 0};
    const auto result = static_cast<uint64_t>(columns) * static_cast<uint64_t>(rows * element);
    const InboxLayout layout = inbox_layout(shards, result + random() % 5000);
    const GatherPlan plan = plan_gather(layout, split, rows, element, kMaxGatherBlocks);
    ASSERT_GT(plan.rounds, 0) << "a row of " << columns << " columns";
    expect_fits(layout, starts, plan, rows, element);
    if (HasFailure()) FAIL() << shards << " shards, " << rows << " rows of " << columns;
  }
}

TEST(GatherPlan, WordsCarryTheEpochUpToALimit) {
  const std::vector<int32_t> starts = {0, 1024, 2048};
  const ColumnSplit split = {starts.data(), 2, 0};
  const InboxLayout layout = inbox_layout(2, uint64_t{64} << 20);
  constexpr auto kRows = static_cast<int32_t>(kInlineBytes / 4096);
  EXPECT_TRUE(plan_gather(layout, split, kRows, 4, 8).is_inline);
  const GatherPlan next = plan_gather(layout, split, kRows + 1, 4, 8);
  EXPECT_FALSE(next.is_inline);
  EXPECT_EQ(next.unit_bytes, 16);
  EXPECT_EQ(next.rounds, 1);
  EXPECT_EQ(plan_gather(layout, split, 4096, 4, 8).rounds, 4);
}

TEST(GatherPlan, ARowThatDoesNotFitIsRefused) {
  const std::vector<int32_t> starts = {0, 4096, 8192};
  const ColumnSplit split = {starts.data(), 2, 0};
  EXPECT_EQ(plan_gather(inbox_layout(2, 1024), split, 1, 4, 8).rounds, 0);
}

TEST(GatherPlan, BlocksLeaveRoomForOtherShards) {
  EXPECT_EQ(max_gather_blocks(132, 1), kMaxGatherBlocks);
  EXPECT_EQ(max_gather_blocks(132, 2), 33);
  EXPECT_EQ(max_gather_blocks(16, 2), 4);
  EXPECT_EQ(max_gather_blocks(1, 2), 1);
}

}  // namespace
}  // namespace quire::kernels
