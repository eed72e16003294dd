#include "kernels/cuda/plan/float8_shape.h"

#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace quire::kernels {
namespace {

CardLimits hopper() {
  CardLimits card;
  card.num_multiprocessors = 132;
  card.shared_per_block = 227 << 10;
  card.shared_per_multiprocessor = 228 << 10;
  card.warpgroup_products = true;
  return card;
}

TEST(Float8ShapeTest, EightRowsFillOneKilobyte) {
  std::set<uint32_t> places;
  for (uint32_t row = 0; row < 8; ++row)
    for (uint32_t k = 0; k < 128; ++k) places.insert(float8_place(row, k));
  EXPECT_EQ(places.size(), kFloat8OctetBytes);
  EXPECT_EQ(*places.rbegin(), kFloat8OctetBytes - 1);
}

// Every column has a row of a tile of its own, also if the last tile is not full.
TEST(Float8ShapeTest, EveryColumnHasItsOwnRow) {
  for (const auto& [columns, paired] :
       {std::pair{1, false}, {64, false}, {300, false}, {2, true}, {64, true}, {66, true}, {1000, true}}) {
    std::set<std::pair<int32_t, int32_t>> places;
    for (int32_t c = 0; c < columns; ++c) {
      const Float8Place place = float8_column(c, columns, paired);
      EXPECT_LT(place.tile, float8_tiles(columns, paired));
      EXPECT_GE(place.row, 0);
      EXPECT_LT(place.row, kFloat8Columns);
      places.insert({place.tile, place.row});
    }
    EXPECT_EQ(places.size(), static_cast<size_t>(columns)) << columns;
  }
}

// A lane has rows g and g + 8 of 16: one for gate, the other for up.
TEST(Float8ShapeTest, GateRowsAreEightBeforeUpRows) {
  for (int32_t c = 0; c < 500; ++c) {
    const Float8Place gate = float8_column(c, 1000, true), up = float8_column(500 + c, 1000, true);
    EXPECT_EQ(gate.tile, up.tile);
    EXPECT_EQ(gate.row + 8, up.row);
    EXPECT_EQ(gate.row % 16, c % 8);
  }
}

// Checks what every shape has in common.
void expect_sound(const Float8Shape& s, int32_t tiles, int32_t rows) {
  EXPECT_TRUE(s.octets == 1 || s.octets == 2 || s.octets == 4 || s.octets == 8 || s.octets == 16);
  EXPECT_GE(s.groups, 1);
  EXPECT_GE(s.token_tiles * s.octets * kFloat8Octet, rows);
  EXPECT_LT((s.token_tiles - 1) * s.octets * kFloat8Octet, rows);
  EXPECT_GE(s.tasks * (1 + s.pairs) * s.groups, tiles * s.token_tiles);
  EXPECT_EQ(s.blocks % (1 + s.pairs), 0);
  EXPECT_GT(s.blocks, 0);
  EXPECT_LE(s.blocks, s.tasks * (1 + s.pairs));
  EXPECT_GE(s.pipeline_slots, 2);
  EXPECT_EQ(s.shared_bytes,
            kFloat8SlotsAt + static_cast<uint32_t>(s.pipeline_slots) * float8_slot_bytes(s.octets, s.groups));
}

constexpr int32_t kTiles[] = {1, 32, 33, 48, 224};
constexpr int32_t kRows[] = {1, 8, 9, 17, 64, 65, 128, 129, 256, 2048};

TEST(Float8ShapeTest, EveryShapeIsValidWithWarpgroupProducts) {
  const CardLimits card = hopper();
  for (const int32_t tiles : kTiles) {
    for (const int32_t rows : kRows) {
      SCOPED_TRACE(std::to_string(tiles) + " tiles, " + std::to_string(rows) + " rows");
      const Float8Shape s = float8_shape(card, tiles, 32, rows);
      expect_sound(s, tiles, rows);
      EXPECT_LE(s.groups, s.octets == kMaxFloat8Octets ? kMaxFloat8Groups : 2) << "no kernel has this shape";
      EXPECT_EQ(s.pairs, s.octets == kMaxFloat8Octets ? 1 : 0);
      EXPECT_LE(s.pipeline_slots, kMaxFloat8Slots);
      const int32_t there = (s.blocks + card.num_multiprocessors - 1) / card.num_multiprocessors;
      const auto at_once = static_cast<uint32_t>(std::min(there, float8_blocks_at_once(s.octets, s.groups)));
      EXPECT_LE(s.shared_bytes, card.shared_per_block);
      EXPECT_LE(at_once * (s.shared_bytes + 1024), card.shared_per_multiprocessor);
    }
  }
}

// Multiprocessors and shared memory of an L4, an RTX 4090, an RTX 5090, an H200 that runs code for 8.9, and
// the emulated card.
constexpr CardLimits kOtherCards[] = {{58, 99 << 10, 100 << 10},
                                      {128, 99 << 10, 100 << 10},
                                      {170, 99 << 10, 100 << 10},
                                      {132, 227 << 10, 228 << 10},
                                      {16, 163 << 10, 164 << 10}};

TEST(Float8ShapeTest, EveryShapeIsValidWithoutWarpgroupProducts) {
  for (const CardLimits& card : kOtherCards) {
    for (const int32_t tiles : kTiles) {
      for (const int32_t rows : kRows) {
        SCOPED_TRACE(std::to_string(card.num_multiprocessors) + " multiprocessors, " + std::to_string(tiles) +
                     " tiles, " + std::to_string(rows) + " rows");
        const Float8Shape s = float8_shape(card, tiles, 32, rows);
        expect_sound(s, tiles, rows);
        EXPECT_LE(s.groups, kMaxFloat8StripGroups) << "no kernel has this shape";
        EXPECT_EQ(s.pairs, 0);
        EXPECT_LE(s.pipeline_slots, kMaxFloat8StripSlots);
        const int32_t there = (s.blocks + card.num_multiprocessors - 1) / card.num_multiprocessors;
        EXPECT_LE(there, float8_strip_blocks(s.octets, s.groups));
        EXPECT_LE(s.shared_bytes, card.shared_per_block);
        EXPECT_LE(static_cast<uint32_t>(there) * (s.shared_bytes + kReservedBytes),
                  card.shared_per_multiprocessor);
      }
    }
  }
}

// Two tiles of columns share the activations of a long prompt. A single token has too few tiles for that.
TEST(Float8ShapeTest, ManyTokensUseBlocksOfTwoTiles) {
  for (const CardLimits& card : kOtherCards) {
    EXPECT_EQ(float8_shape(card, 448, 32, 2048).groups, 2) << card.num_multiprocessors;
    EXPECT_EQ(float8_shape(card, 448, 32, 2048).octets, kMaxFloat8Octets) << card.num_multiprocessors;
  }
  EXPECT_EQ(float8_shape(kOtherCards[1], 64, 32, 1).groups, 1);
}

// The warpgroups of a block share activations, but with few tiles, blocks of several warpgroups would leave
// most of a card idle.
TEST(Float8ShapeTest, FewTilesUseOneWarpgroupPerBlock) {
  EXPECT_EQ(float8_shape(hopper(), 64, 112, 1).groups, 1);
  EXPECT_EQ(float8_shape(hopper(), 64, 32, 256).groups, 1);
  EXPECT_EQ(float8_shape(hopper(), 448, 32, 2048).groups, kMaxFloat8Groups);
}

}  // namespace
}  // namespace quire::kernels
