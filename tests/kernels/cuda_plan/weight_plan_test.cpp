// Conversion of a stored matrix to tiles, for all kinds of groups: each row has one tile, each tile one
// location, and the scales next to a tile are those of its rows.
#include "kernels/cuda/plan/weight_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/interface/half.h"

namespace quire::kernels {
namespace {

struct Exl2Matrix {
  std::vector<Exl2Group> groups;
  WeightSource source;

  void add(int32_t bits, int32_t rows) {
    Exl2Group group;
    group.bits = bits;
    group.num_rows = rows;
    if (!groups.empty()) {
      const Exl2Group& last = groups.back();
      group.first_row = last.first_row + last.num_rows;
      group.first_packed_row = last.first_packed_row + last.num_rows * last.bits / 32;
    }
    groups.push_back(group);
  }
  const WeightSource& view(int32_t columns = 64) {
    source.format = WeightFormat::exl2;
    source.num_in = std::accumulate(groups.begin(), groups.end(), 0,
                                    [](int32_t sum, const Exl2Group& g) { return sum + g.num_rows; });
    source.num_out = source.padded_out = columns;
    source.exl2.groups = groups.data();
    source.exl2.num_groups = static_cast<int32_t>(groups.size());
    return source;
  }
};

WeightSource fp8_source(int32_t rows, int32_t columns, int32_t scale_in) {
  WeightSource source;
  source.num_in = rows;
  source.num_out = source.padded_out = columns;
  source.dense.dtype = DType::f8_e4m3;
  source.dense.scale_out = columns;
  source.dense.scale_in = scale_in;
  return source;
}

WeightSource gptq_source(const std::vector<int32_t>& group_of_row, int32_t num_groups) {
  WeightSource source;
  source.format = WeightFormat::coded;
  source.num_in = static_cast<int32_t>(group_of_row.size());
  source.num_out = source.padded_out = 64;
  source.coded.group_of_row = group_of_row.data();
  source.coded.num_groups = num_groups;
  return source;
}

// Checks that runs are contiguous, in segments and in bytes, up to the end of the strip.
void expect_runs_fill_the_strip(const PartPlan& plan) {
  ASSERT_FALSE(plan.runs.empty());
  ASSERT_LE(plan.runs.size(), static_cast<size_t>(kMaxRuns));
  uint32_t byte = 0;
  int32_t segment = 0;
  for (const Run& run : plan.runs) {
    EXPECT_EQ(run.first, segment);
    EXPECT_EQ(run.first_byte, byte);
    EXPECT_GT(run.end, run.first);
    EXPECT_EQ(run.segment_bytes % 16, 0U) << "not a size that a bulk copy takes";
    byte += run.segment_bytes * static_cast<uint32_t>(run.end - run.first);
    segment = run.end;
  }
  EXPECT_EQ(byte, plan.strip_bytes);
  const int32_t blocks = (plan.source->num_in + kBlockRows - 1) / kBlockRows;
  EXPECT_EQ(segment, blocks * (kBlockSteps / segment_steps(plan.kind)));
  EXPECT_EQ(plan.steps.size(), static_cast<size_t>(blocks * kBlockSteps));
}

// Checks that records and tiles do not overlap and leave no gaps.
void expect_places_are_disjoint(const PartPlan& plan) {
  std::vector<std::pair<uint32_t, uint32_t>> pieces;
  for (const ScaleSource& record : plan.records) pieces.emplace_back(record.byte, scale_bytes(plan.kind));
  for (const StepSource& step : plan.steps)
    pieces.emplace_back(step.byte, static_cast<uint32_t>(step.bits) * 128);
  std::sort(pieces.begin(), pieces.end());
  uint32_t byte = 0;
  for (const auto& [first, size] : pieces) {
    ASSERT_EQ(first, byte);
    byte += size;
  }
  EXPECT_EQ(byte, plan.strip_bytes);
}

// Returns the group whose scales a kernel applies to a step: that of the last record before the step's tile.
int32_t group_beside(const PartPlan& plan, size_t step) {
  const size_t segment = step / static_cast<size_t>(kBlockSteps), in_segment = step % kBlockSteps;
  size_t record = 0;
  for (const Run& run : plan.runs) {
    const auto first = static_cast<size_t>(run.first), end = static_cast<size_t>(run.end),
               records = static_cast<size_t>(run.records);
    if (segment >= end) {
      record += (end - first) * records;
      continue;
    }
    record += (segment - first) * records + (records == 1 ? 0 : in_segment);
    break;
  }
  return plan.records.at(record).group;
}

TEST(WeightPlanTest, RandomExl2GroupsHaveTilesAndScales) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Exl2Matrix matrix;
    for (const int32_t bits : {8, 6, 5, 4, 3, 2}) {
      for (auto left = random() % 6; left > 0; --left)
        matrix.add(bits, 32 * static_cast<int32_t>(1 + random() % 7));
    }
    if (matrix.groups.empty()) matrix.add(4, 32);
    PartPlan plan;
    ASSERT_TRUE(plan_part(matrix.view(), plan));
    ASSERT_EQ(plan.kind, TileKind::exl2);
    expect_runs_fill_the_strip(plan);
    expect_places_are_disjoint(plan);
    for (size_t g = 0; g < matrix.groups.size(); ++g) {
      const Exl2Group& group = matrix.groups[g];
      for (int32_t row = 0; row < group.num_rows; row += kStepRows) {
        const auto step = static_cast<size_t>((group.first_row + row) / kStepRows);
        EXPECT_EQ(plan.steps[step].stored_bits, group.bits);
        EXPECT_GE(plan.steps[step].bits, group.bits);
        EXPECT_EQ(plan.steps[step].packed_row, group.first_packed_row + row * group.bits / 32);
        EXPECT_EQ(group_beside(plan, step), static_cast<int32_t>(g));
      }
    }
    for (size_t step = static_cast<size_t>(plan.source->num_in / kStepRows); step < plan.steps.size(); ++step)
      EXPECT_EQ(plan.steps[step].stored_bits, 0) << "rows that are not there";
  }
}

TEST(WeightPlanTest, TheLargestExl2GroupScaleHasSevenBitsInItsUnit) {
  for (const float largest : {6e-8f, 3.1e-5f, 0.0008f, 0.25f, 1.0f, 1.999f, 255.0f}) {
    for (const float other : {0.0f, 1e-3f, 1.0f}) {
      Exl2Matrix matrix;
      matrix.add(4, 64);
      matrix.add(4, 64);
      const std::vector<uint16_t> scales = {float_to_half(256.0f * largest * other),
                                            float_to_half(256.0f * largest)};
      PartPlan plan;
      WeightSource source = matrix.view();
      source.exl2.q_scale_max = scales.data();
      ASSERT_TRUE(plan_part(source, plan));
      int exponent = 0;
      EXPECT_EQ(std::frexp(plan.unit, &exponent), 0.5f) << "a power of two";
      const float in_unit = half_to_float(plan.group_scale[1]) * kExl2CodeUnit / plan.unit;
      EXPECT_GE(in_unit, kMaxExl2Scale / 2) << largest;
      EXPECT_LT(in_unit, kMaxExl2Scale) << largest;
    }
  }
  Exl2Matrix none;
  none.add(4, 64);
  PartPlan plan;
  ASSERT_TRUE(plan_part(none.view(), plan));
  EXPECT_EQ(plan.unit, 1.0f);
}

TEST(WeightPlanTest, Exl2GroupsOfHalfAStepBecomeDenseTiles) {
  Exl2Matrix matrix;
  matrix.add(4, 64);
  matrix.add(2, 16);
  PartPlan plan;
  ASSERT_TRUE(plan_part(matrix.view(), plan));
  EXPECT_EQ(plan.kind, TileKind::dense);
  expect_runs_fill_the_strip(plan);
  expect_places_are_disjoint(plan);
}

TEST(WeightPlanTest, Exl2GroupsWithGapsAreRefused) {
  const auto refused = [](auto spoil) {
    Exl2Matrix matrix;
    matrix.add(5, 64);
    matrix.add(4, 128);
    matrix.view();
    spoil(matrix);
    PartPlan plan;
    return !plan_part(matrix.source, plan);
  };
  EXPECT_FALSE(refused([](Exl2Matrix&) {}));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.groups[1].first_row = 96; }));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.groups[0].first_row = -32; }));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.groups[0].num_rows = 0; }));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.groups[0].num_rows = -64; }));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.source.num_in = 256; }));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.source.num_in = 0; }));
  EXPECT_TRUE(refused([](Exl2Matrix& m) { m.source.num_out = -1; }));
  for (const int32_t bits : {-4, 0, 1, 7, 9, 255})
    EXPECT_TRUE(refused([&](Exl2Matrix& m) { m.groups[1].bits = bits; })) << bits;
}

TEST(WeightPlanTest, GptqRowsAreSortedByGroupAndKeepTheirFeatures) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int32_t group_rows = 32 << random() % 4, num_groups = 1 + static_cast<int32_t>(random() % 6);
    std::vector<int32_t> group_of_row;
    for (int32_t g = 0; g < num_groups; ++g)
      group_of_row.insert(group_of_row.end(), static_cast<size_t>(group_rows), g);
    if (seed % 5 != 0) std::shuffle(group_of_row.begin(), group_of_row.end(), random);
    const WeightSource source = gptq_source(group_of_row, num_groups);
    PartPlan plan;
    ASSERT_TRUE(plan_part(source, plan));
    ASSERT_EQ(plan.kind, TileKind::gptq);
    expect_runs_fill_the_strip(plan);
    expect_places_are_disjoint(plan);
    const bool sorted = std::is_sorted(group_of_row.begin(), group_of_row.end());
    EXPECT_EQ(plan.row_order.empty(), sorted);
    for (size_t row = 0; row < group_of_row.size(); ++row) {
      const size_t feature = sorted ? row : static_cast<size_t>(plan.row_order[row]);
      EXPECT_EQ(group_of_row.at(feature), plan.row_group[row]);
      EXPECT_EQ(group_of_row.at(feature), group_beside(plan, row / kStepRows));
    }
    std::vector<int32_t> features = plan.row_order;
    std::sort(features.begin(), features.end());
    for (size_t i = 0; i < features.size(); ++i) ASSERT_EQ(features[i], static_cast<int32_t>(i));
  }
}

TEST(WeightPlanTest, GptqRowsWithAnInvalidGroupAreRefused) {
  for (const int32_t group : {-1, 2, 1 << 30}) {
    std::vector<int32_t> group_of_row(64, 1);
    group_of_row[40] = group;
    PartPlan plan;
    EXPECT_FALSE(plan_part(gptq_source(group_of_row, 2), plan)) << group;
  }
}

TEST(WeightPlanTest, Fp8ScalesAreStoredWithTheirRows) {
  for (const int32_t scale_in : {32, 64, 96, 128, 160, 256, 384, 1000, 1024}) {
    for (const int32_t rows : {1, 31, 32, 100, 128, 130, 500, 1000, 1024}) {
      if (scale_in > rows) continue;
      SCOPED_TRACE(std::to_string(rows) + " rows, a scale for " + std::to_string(scale_in));
      const WeightSource source = fp8_source(rows, 40, scale_in);
      PartPlan plan;
      ASSERT_TRUE(plan_part(source, plan));
      expect_runs_fill_the_strip(plan);
      expect_places_are_disjoint(plan);
      ASSERT_EQ(plan.kind, scale_in % kStepRows == 0 || scale_in == rows ? TileKind::fp8 : TileKind::dense);
      if (plan.kind != TileKind::fp8) continue;
      for (int32_t row = 0; row < rows; ++row)
        ASSERT_EQ(group_beside(plan, static_cast<size_t>(row / kStepRows)), row / scale_in);
    }
  }
}

TEST(WeightPlanTest, Fp8WithInvalidScalesIsRefused) {
  PartPlan plan;
  for (const int32_t scale_in : {-1, 0, 129}) EXPECT_FALSE(plan_part(fp8_source(128, 64, scale_in), plan));
  WeightSource source = fp8_source(128, 64, 128);
  source.dense.scale_out = 65;
  EXPECT_FALSE(plan_part(source, plan));
}

bool uses_float8(const std::vector<WeightSource>& parts) {
  return uses_float8(MatrixSource{parts.data(), static_cast<int32_t>(parts.size())});
}

// The rows that share a scale decide, and whether FP8 activations were requested; for all parts of a matrix,
// or none.
TEST(WeightPlanTest, FloatActivationsNeedOneScalePerBlock) {
  WeightSource sound = fp8_source(512, 64, 128);
  EXPECT_FALSE(uses_float8({sound})) << "FP8 activations were not requested";
  sound.activations = ActivationDtype::i8;
  EXPECT_FALSE(uses_float8({sound}));
  sound.activations = ActivationDtype::f8;
  EXPECT_TRUE(uses_float8({sound, sound}));
  for (const int32_t scale_in : {32, 64, 96, 192}) {
    WeightSource fine = sound;
    fine.dense.scale_in = scale_in;
    EXPECT_FALSE(uses_float8({fine})) << scale_in;
    EXPECT_FALSE(uses_float8({sound, fine})) << scale_in;
  }
  for (const int32_t scale_in : {256, 512}) {
    WeightSource coarse = sound;
    coarse.dense.scale_in = scale_in;
    EXPECT_TRUE(uses_float8({coarse})) << scale_in;
  }
  WeightSource short_rows = sound;
  short_rows.num_in = short_rows.dense.scale_in = 96;
  EXPECT_TRUE(uses_float8({short_rows})) << "one scale for all rows";
  WeightSource expert = sound;
  expert.is_expert = true;
  EXPECT_FALSE(uses_float8({expert}));
  WeightSource half = sound;
  half.dense.dtype = DType::f16;
  EXPECT_FALSE(uses_float8({half}));
  const std::vector<int32_t> one_group(512, 0);
  WeightSource gptq = gptq_source(one_group, 1);
  gptq.activations = ActivationDtype::f8;
  EXPECT_FALSE(uses_float8({gptq}));
}

TEST(WeightPlanTest, AFloat8StripHasCodesAndAScalePerBlock) {
  WeightSource source = fp8_source(300, 100, 128);
  source.activations = ActivationDtype::f8;
  PartPlan plan;
  ASSERT_TRUE(plan_part(source, plan, true));
  EXPECT_EQ(plan.kind, TileKind::float8);
  EXPECT_EQ(plan.strip_bytes, 3 * (64 * 128 + 64 * 4)) << "300 rows are three blocks of 128";
}

// The warps of a warpgroup multiply together. So parts in one launch need segments of the same forms, except
// for exl2, whose kernel handles different ones.
TEST(WeightPlanTest, PartsWithEqualSegmentsShareALaunch) {
  const WeightSource coarse = fp8_source(256, 64, 128), fine = fp8_source(256, 64, 32),
                     shallow = fp8_source(128, 64, 128);
  PartPlan a, b, c, d;
  ASSERT_TRUE(plan_part(coarse, a) && plan_part(coarse, b) && plan_part(fine, c) && plan_part(shallow, d));
  EXPECT_TRUE(shares_launch(a, b));
  EXPECT_FALSE(shares_launch(a, c));
  EXPECT_FALSE(shares_launch(a, d));
  Exl2Matrix four, five;
  four.add(4, 256);
  five.add(5, 256);
  PartPlan e, f;
  ASSERT_TRUE(plan_part(four.view(), e) && plan_part(five.view(), f));
  EXPECT_TRUE(shares_launch(e, f));
  EXPECT_FALSE(shares_launch(a, e));
}

// A shard adds its sums in the order of the whole matrix, whatever its own columns are.
TEST(ChainBits, FollowTheColumnsOfTheWholeMatrix) {
  WeightSource part;
  part.num_in = 256;
  part.num_out = kStripColumns * kManyStrips / 2;
  MatrixSource shard = {&part, 1};
  Matrix matrix;
  matrix.num_strips = kManyStrips / 2;
  EXPECT_EQ(chain_bits_of(shard, matrix), kMaxChainBits);
  const int32_t whole[] = {kStripColumns * kManyStrips, 0};
  shard.whole_columns = whole;
  shard.num_whole_parts = 1;
  EXPECT_EQ(chain_bits_of(shard, matrix), kFewChainBits);
  shard.num_whole_parts = 2;  // of the other part the shard has nothing
  EXPECT_EQ(chain_bits_of(shard, matrix), kFewChainBits);
}

TEST(ChainBits, PartsOfAShardAreAPairOnlyIfTheWholePartsAre) {
  WeightSource part;
  part.num_out = 64;
  std::vector<PartPlan> plans(2);
  for (PartPlan& plan : plans) plan.source = &part;
  MatrixSource matrix;
  EXPECT_TRUE(is_pair(matrix, plans));
  const int32_t equal[] = {128, 128}, other[] = {128, 160};
  matrix.num_whole_parts = 2;
  matrix.whole_columns = equal;
  EXPECT_TRUE(is_pair(matrix, plans));
  matrix.whole_columns = other;
  EXPECT_FALSE(is_pair(matrix, plans));
}

}  // namespace
}  // namespace quire::kernels
