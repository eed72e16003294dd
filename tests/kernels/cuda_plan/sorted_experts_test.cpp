// Order in which a card multiplies experts: those in slots, those that get into slots, the others.
#include "kernels/cuda/plan/sorted_experts.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

struct Call {
  std::vector<int32_t> experts;
  std::vector<ExpertPlace> places;
  PackedExpertsParams params;

  Call(std::vector<int32_t> of_rows, std::vector<ExpertPlace> of_experts, int32_t num_chosen = 1)
      : experts(std::move(of_rows)), places(std::move(of_experts)) {
    params.expert_of_row = experts.data();
    params.places = places.data();
    params.num_experts = static_cast<int32_t>(places.size());
    params.num_chosen = num_chosen;
    params.tokens = static_cast<int32_t>(experts.size()) / num_chosen;
  }
};

constexpr ExpertPlace kNone{};
ExpertPlace there(int32_t slot) {
  return {slot, true};
}
ExpertPlace assigned(int32_t slot) {
  return {slot, false};
}

std::vector<int32_t> order_of(const SortedExperts& sorted) {
  return {sorted.experts, sorted.experts + sorted.count};
}

TEST(SortedExperts, BeginWithThoseThatAreThere) {
  const Call call({4, 0, 2, 2, 4, 1}, {kNone, there(3), kNone, assigned(1), there(0), assigned(2), kNone}, 2);
  SortedExperts sorted;
  std::vector<int32_t> rows(6, -1);
  ASSERT_TRUE(sort_experts(call.params, PackedRowsOf::all_experts, sorted, rows.data()));
  EXPECT_EQ(order_of(sorted), (std::vector<int32_t>{1, 4, 3, 5, 0, 2}));
  EXPECT_EQ(sorted.end_there, 2);
  EXPECT_EQ(sorted.end_slotted, 4);
  EXPECT_EQ(rows, (std::vector<int32_t>{5, 0, 4, 1, 2, 3}));
  EXPECT_EQ(sorted.num_rows(2), 0) << "an expert gets into a slot without rows, too";
  ASSERT_TRUE(sort_experts(call.params, PackedRowsOf::experts_in_slots, sorted, rows.data()));
  EXPECT_EQ(order_of(sorted), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(sorted.num_rows(), 3);
  EXPECT_EQ(std::vector<int32_t>(rows.begin(), rows.begin() + 3), (std::vector<int32_t>{5, 0, 4}));
}

TEST(SortedExperts, AreAllStreamedWithoutPlaces) {
  Call call({1, 0, 1}, {kNone, kNone});
  call.params.places = nullptr;
  SortedExperts sorted;
  std::vector<int32_t> rows(3);
  ASSERT_TRUE(sort_experts(call.params, PackedRowsOf::all_experts, sorted, rows.data()));
  EXPECT_EQ(sorted.end_slotted, 0);
  EXPECT_EQ(rows, (std::vector<int32_t>{1, 0, 2}));
  call.params.tokens = 0;
  ASSERT_TRUE(sort_experts(call.params, PackedRowsOf::all_experts, sorted, rows.data()));
  EXPECT_EQ(sorted.count, 0);
}

TEST(SortedExperts, RefuseRowsWithoutAnExpert) {
  for (const int32_t wrong : {-1, 2}) {
    const Call call({0, wrong}, {kNone, there(0)});
    SortedExperts sorted;
    std::vector<int32_t> rows(2);
    EXPECT_FALSE(sort_experts(call.params, PackedRowsOf::all_experts, sorted, rows.data()));
    EXPECT_FALSE(sort_experts(call.params, PackedRowsOf::experts_in_slots, sorted, rows.data()));
  }
}

TEST(SortedExperts, HaveEachRowOnceAndTilesOfOneExpert) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto any = [&](uint32_t most) { return static_cast<int32_t>(random() % most); };
    const int32_t num_experts = 1 + any(20);
    std::vector<ExpertPlace> places;
    for (int32_t e = 0; e < num_experts; ++e)
      places.push_back(any(2) == 0 ? kNone : ExpertPlace{e, any(2) == 0});
    std::vector<int32_t> experts;
    for (int32_t r = any(500); r >= 0; --r) experts.push_back(any(static_cast<uint32_t>(num_experts)));
    const Call call(experts, places);
    SortedExperts sorted;
    std::vector<int32_t> rows(experts.size());
    ASSERT_TRUE(sort_experts(call.params, PackedRowsOf::all_experts, sorted, rows.data()));
    ASSERT_EQ(static_cast<size_t>(sorted.num_rows()), experts.size());
    for (int32_t place = 0; place < sorted.count; ++place) {
      const auto begin = rows.begin() + sorted.first_row[place], end = begin + sorted.num_rows(place);
      EXPECT_TRUE(std::is_sorted(begin, end));
      for (auto row = begin; row != end; ++row)
        EXPECT_EQ(experts[static_cast<size_t>(*row)], sorted.experts[place]);
      EXPECT_EQ(sorted.first_tile[place + 1] - sorted.first_tile[place],
                (sorted.num_rows(place) + kPackedTileRows - 1) / kPackedTileRows);
      EXPECT_EQ(place < sorted.end_there, places[static_cast<size_t>(sorted.experts[place])].is_there());
    }
    std::sort(rows.begin(), rows.end());
    for (size_t r = 0; r < rows.size(); ++r) ASSERT_EQ(rows[r], static_cast<int32_t>(r));
  }
}

}  // namespace
}  // namespace quire::kernels
