// Tiles of EXL3 matrices: places of words and rows, kept transforms, scales, and plans.
#include "kernels/cuda/plan/trellis_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "kernels/cuda/plan/gemm_shape.h"
#include "kernels/cuda/plan/weight_plan.h"
#include "kernels/interface/half.h"
#include "tests/support/trellis_fixture.h"

namespace quire::kernels {
namespace {

using testing::make_trellis;
using testing::TrellisFixture;

TEST(TrellisTiles, WordsOfAUnitFillIt) {
  for (int32_t half_bits = 2; half_bits <= 16; ++half_bits) {
    const int32_t words = trellis_unit_words(half_bits);
    std::set<int32_t> places;
    for (int32_t lane = 0; lane < 32; ++lane) {
      for (int32_t w = 0; w < words; ++w) {
        const int32_t place = trellis_word_place(words, w, lane);
        EXPECT_EQ(place % 4, 0);
        EXPECT_TRUE(places.insert(place).second) << half_bits;
        // Words that are loaded together are adjacent and aligned.
        if (w % 4 == 0 && w + 4 <= words) {
          EXPECT_EQ(place % 16, 0);
        }
      }
    }
    EXPECT_EQ(*places.begin(), 0);
    EXPECT_EQ(*places.rbegin(), words * 128 - 4);
    const int32_t units = half_bits % 2 == 0 ? 2 : 1;
    EXPECT_EQ(static_cast<uint32_t>(units * words * 128), trellis_half_bytes(half_bits));
    EXPECT_EQ(trellis_segment_bytes(half_bits), 128U * 32U * static_cast<uint32_t>(half_bits) / 16U);
  }
}

// By the formula of the place of a weight in its tile (docs/formats.md): lane 4g+t decodes stream g of the
// tiles 2t and 2t + 1, and the pairs of a step are those of matrix.h.
TEST(TrellisTiles, StoredRowsAreInTheOrderOfTheStream) {
  for (int32_t t = 0; t < 4; ++t) {
    for (int32_t step = 0; step < 4; ++step) {
      for (int32_t weight = 0; weight < 16; ++weight) {
        const int32_t in_stream = 16 * (step % 2) + weight, lane = in_stream / 8, e = in_stream % 8;
        const int32_t row = 2 * (lane % 4) + e % 2 + 8 * (e / 2 % 2), is_second = e / 4;
        const int32_t pair = 4 * (weight / 8) + 2 * (e / 2 % 2) + is_second;
        const int32_t stored = 32 * step + 8 * t + 4 * (pair / 4) + 2 * (pair % 4 >> 1) + weight % 2;
        EXPECT_EQ(trellis_stored_row(16 * (2 * t + step / 2) + row), stored);
      }
    }
  }
}

TEST(TrellisTiles, StoredRowsAreAPermutation) {
  std::vector<int32_t> rows(128), all(128);
  for (int32_t k = 0; k < 128; ++k) rows[static_cast<size_t>(k)] = trellis_stored_row(k);
  std::sort(rows.begin(), rows.end());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(rows, all);
}

TEST(TrellisTiles, OutputsFindTheirColumns) {
  TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 8}, 128, 512, 1);
  matrix.column_order = {300, 301, 5, 5, 383, 0, 5, 511};
  const WeightSource source = matrix.source();
  const TrellisColumns columns = trellis_columns(source);
  EXPECT_EQ(columns.stored, (std::vector<int32_t>{2, 0, 0, 0, 3})) << "three outputs read column 5";
  ASSERT_EQ(columns.outputs.size(), 5U * 128U);
  std::vector<int> found(8);
  for (size_t i = 0; i < columns.outputs.size(); ++i) {
    const int32_t output = columns.outputs[i];
    if (output < 0) continue;
    ++found[static_cast<size_t>(output)];
    EXPECT_EQ(columns.stored[i / 128] * 128 + static_cast<int32_t>(i % 128),
              matrix.column_order[static_cast<size_t>(output)]);
  }
  EXPECT_EQ(found, std::vector<int>(8, 1));
}

TEST(TrellisTiles, ScalesOfInputsAreThoseOfTheFileTimesAPowerOfTwo) {
  for (const float size : {0x1p-14f, 0.02f, 1.0f, 60000.0f}) {
    TrellisFixture matrix = make_trellis({TrellisCodebook::mcg, 8}, 200, 100, 2);
    for (uint16_t& scale : matrix.input_scales) scale = float_to_half(half_to_float(scale) / 1.5f * size);
    matrix.prescale = 0.3f;
    const WeightSource source = matrix.source();
    const TrellisScales scales = trellis_scales(source, trellis_columns(source));
    ASSERT_EQ(scales.inputs.size(), 256U);
    ASSERT_EQ(scales.outputs.size(), 128U);
    float largest = 0.0f;
    for (const float scale : scales.inputs) largest = std::max(largest, std::abs(scale));
    EXPECT_GE(largest, 0x1p-5f);
    EXPECT_LT(largest, 0x1p-4f);
    const float factor = scales.inputs[0] / half_to_float(matrix.input_scales[0]);
    int exponent = 0;
    EXPECT_EQ(std::frexp(factor, &exponent), 0.5f) << "a power of two";
    for (size_t k = 0; k < 256; ++k)
      EXPECT_EQ(scales.inputs[k], half_to_float(matrix.input_scales[k]) * factor);
    for (size_t n = 0; n < 128; ++n)
      EXPECT_NEAR(scales.outputs[n] * factor * 128.0f, half_to_float(matrix.output_scales[n]) * 0.3f,
                  1e-6f * std::abs(half_to_float(matrix.output_scales[n])));
  }
}

TEST(TrellisTiles, ScalesOfZeroArePossible) {
  TrellisFixture matrix = make_trellis({TrellisCodebook::mcg, 8}, 128, 128, 3);
  std::fill(matrix.input_scales.begin(), matrix.input_scales.end(), uint16_t{0});
  const WeightSource source = matrix.source();
  for (const float scale : trellis_scales(source, trellis_columns(source)).outputs)
    EXPECT_TRUE(std::isfinite(scale));
}

TEST(TrellisTiles, APlanHasWholeTransforms) {
  const TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 5}, 200, 300, 4);
  const WeightSource source = matrix.source();
  PartPlan plan;
  ASSERT_TRUE(plan_part(source, plan));
  EXPECT_EQ(plan.kind, TileKind::trellis);
  EXPECT_EQ(plan.num_strips, 12);
  ASSERT_EQ(plan.runs.size(), 1U);
  EXPECT_EQ(plan.runs[0].end, 2);
  EXPECT_EQ(plan.strip_bytes, 2 * trellis_segment_bytes(5));
  EXPECT_EQ(trellis_half_bits(plan.runs[0].bits), 5);
  EXPECT_EQ(trellis_codebook(plan.runs[0].bits), TrellisCodebook::mul1);
}

TEST(TrellisTiles, PartsOfDifferentKindsShareALaunch) {
  const TrellisFixture a = make_trellis({TrellisCodebook::mul1, 8}, 256, 128, 5),
                       b = make_trellis({TrellisCodebook::mcg, 4}, 256, 256, 6);
  const WeightSource first = a.source(), second = b.source();
  std::vector<PartPlan> plans(2);
  ASSERT_TRUE(plan_part(first, plans[0]));
  ASSERT_TRUE(plan_part(second, plans[1]));
  EXPECT_TRUE(shares_launch(plans[0], plans[1]));
  EXPECT_FALSE(is_pair({}, plans)) << "other numbers of columns";
}

// One warp finishes an output of gate and of up.
TEST(TrellisTiles, APairHasOneOrderOfColumns) {
  TrellisFixture a = make_trellis({TrellisCodebook::mul1, 8}, 128, 256, 7), b = a;
  std::vector<PartPlan> plans(2);
  const WeightSource first = a.source(), second = b.source();
  ASSERT_TRUE(plan_part(first, plans[0]) && plan_part(second, plans[1]));
  EXPECT_TRUE(is_pair({}, plans));
  b.column_order.resize(256);
  std::iota(b.column_order.rbegin(), b.column_order.rend(), 0);
  const WeightSource reversed = b.source();
  plans[1] = {};
  ASSERT_TRUE(plan_part(reversed, plans[1]));
  EXPECT_FALSE(is_pair({}, plans));
}

TEST(TrellisTiles, SourcesThatDoNotFitAreRefused) {
  const TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 5}, 128, 128, 8);
  PartPlan plan;
  WeightSource source = matrix.source();
  source.trellis.codebook = TrellisCodebook::mcg;  // which has no half bits
  EXPECT_FALSE(plan_part(source, plan));
  source = matrix.source();
  source.padded_out = source.num_out = 120;
  EXPECT_FALSE(plan_part(source, plan));
  source = matrix.source();
  source.num_out = 200;
  EXPECT_FALSE(plan_part(source, plan));
  source = matrix.source();
  source.num_in = 0x7fffffff;  // strips of more than 2^32 bytes
  source.trellis.half_bits = 16;
  EXPECT_FALSE(plan_part(source, plan));
}

// A row has a transform for each part, all of them in shared memory.
TEST(TrellisTiles, TheNarrowKernelHasMemoryForTheInputsOfEachPart) {
  const CardLimits card = {132, 227 << 10, 228 << 10, true};
  Matrix m;
  m.kind = TileKind::trellis;
  m.num_rows = 4096;
  m.num_blocks = 32;
  m.max_segment_bytes = trellis_segment_bytes(8);
  for (const int32_t parts : {1, 3}) {
    m.num_parts = parts;
    m.num_strips = 0;
    for (int32_t p = 0; p < parts; ++p) m.num_strips += m.parts[p].num_strips = 32;
    const GemmShape s = narrow_shape(card, m, 1);
    EXPECT_GE(s.sums_at - s.activations_at, static_cast<uint32_t>(parts == 1 ? 1 : parts + 1) * 4096 * 2);
    EXPECT_GT(s.shared_bytes, 0U);
  }
}

}  // namespace
}  // namespace quire::kernels
