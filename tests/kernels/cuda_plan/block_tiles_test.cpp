// Tiles of blocks: their sizes, and the unit of a part.
#include "kernels/cuda/plan/block_tiles.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/cuda/plan/weight_plan.h"

namespace quire::kernels {
namespace {

constexpr float kLargestHalf = 65504.0f;

// Bulk copies have sizes and places of multiples of 16 bytes.
TEST(BlockTiles, RecordsAndSegmentsAreMultiplesOf16Bytes) {
  for (int i = 1; i < kNumBlockTypes; ++i) {
    const auto type = static_cast<BlockType>(i);
    const BlockTile tile = block_tile(type);
    EXPECT_EQ(tile.record_bytes % 16, 0U) << block_shape(type).name;
    EXPECT_EQ(block_segment_bytes(type) % 16, 0U) << block_shape(type).name;
    EXPECT_EQ(tile.groups * block_form(type).group, kStepRows) << block_shape(type).name;
    EXPECT_LE(i, 255) << "the form table has eight bits for the type";
  }
}

// The types of most downloads.
TEST(BlockTiles, TilesTakeLittleMoreThanTheFile) {
  for (const BlockType type :
       {BlockType::q4_0, BlockType::q8_0, BlockType::q2_k, BlockType::q3_k, BlockType::q4_k, BlockType::q5_k,
        BlockType::q6_k, BlockType::iq4_xs, BlockType::mxfp4}) {
    const BlockShape& shape = block_shape(type);
    const double stored = 4096.0 * shape.bytes / shape.weights;
    EXPECT_LE(block_segment_bytes(type), 1.06 * stored) << shape.name;
  }
}

TEST(BlockTiles, TheUnitKeepsScalesAndMinimaWithinHalves) {
  for (const float scale : {0.0f, 1e-8f, 6e-5f, 0.01f, 1.0f, 127.0f * kLargestHalf}) {
    for (const float min : {0.0f, 1e-8f, 0.01f, kLargestHalf}) {
      const float unit = block_unit(BlockType::q4_k, {scale, min});
      int exponent = 0;
      EXPECT_EQ(std::frexp(unit, &exponent), 0.5f) << "a power of two";
      EXPECT_LT(scale / unit * kBlockFieldUnit, 32768.0f) << scale << ' ' << min;
      EXPECT_LT(min / unit * kBlockMinUnit, 32768.0f) << scale << ' ' << min;
    }
    if (scale > 0.0f) {
      EXPECT_GE(scale / block_unit(BlockType::q4_k, {scale, 0.0f}) * kBlockFieldUnit, 16384.0f) << scale;
    }
  }
}

// The largest E8M0 scale that the loader accepts is 2^125.
TEST(BlockTiles, TheUnitOfTheLargestExponentIsFinite) {
  EXPECT_TRUE(std::isfinite(block_unit(BlockType::mxfp4, {std::ldexp(1.0f, 125), 0.0f})));
  EXPECT_GT(block_unit(BlockType::mxfp4, {std::ldexp(1.0f, -127), 0.0f}), 0.0f);
}

WeightSource block_source(BlockType type, int32_t rows) {
  WeightSource source;
  source.format = WeightFormat::blocks;
  source.num_in = rows;
  source.num_out = source.padded_out = 72;
  source.blocks.type = type;
  return source;
}

TEST(BlockTiles, APlanHasOneFormForAllRows) {
  const WeightSource source = block_source(BlockType::q5_1, 5 * 32);
  PartPlan plan;
  ASSERT_TRUE(plan_part(source, plan));
  EXPECT_EQ(plan.kind, TileKind::blocks);
  EXPECT_EQ(plan.num_strips, 3);
  ASSERT_EQ(plan.runs.size(), 1U);
  EXPECT_EQ(plan.runs[0].end, 2);
  EXPECT_EQ(plan.strip_bytes, 2 * block_segment_bytes(BlockType::q5_1));
}

TEST(BlockTiles, PartsOfDifferentTypesShareALaunch) {
  const WeightSource a = block_source(BlockType::q4_k, 512), b = block_source(BlockType::q6_k, 512);
  PartPlan first, second;
  ASSERT_TRUE(plan_part(a, first));
  ASSERT_TRUE(plan_part(b, second));
  EXPECT_TRUE(shares_launch(first, second));
}

TEST(BlockTiles, RowsThatAreNoWholeBlocksAndRowsThatAreTooLongAreRefused) {
  PartPlan plan;
  EXPECT_FALSE(plan_part(block_source(BlockType::q4_k, 128), plan));
  EXPECT_FALSE(plan_part(block_source(BlockType::none, 256), plan));
  EXPECT_FALSE(plan_part(block_source(BlockType::q8_0, std::numeric_limits<int32_t>::max() - 31), plan));
}

}  // namespace
}  // namespace quire::kernels
