// Tiles of all block types of GGUF files: values, products, memory, and rows of embedding tables.
#include <cmath>
#include <limits>
#include <string>

#include "tests/kernels/cuda/linear_fixture.h"
#include "tests/kernels/cuda/random_blocks.h"
#include "tests/support/unread_source.h"

namespace quire::kernels {
namespace {

std::string name_of(BlockType type) {
  return block_shape(type).name;
}

class BlockWeightsTest : public LinearTest {
 protected:
  void check_type(BlockType type, int32_t depth, int32_t columns, std::initializer_list<size_t> row_counts) {
    SCOPED_TRACE(name_of(type));
    StoredWeight w;
    make_blocks(w, type, depth, columns, random_);
    check_product({&w}, row_counts);
  }
};

// Values as ggml computes them, [K, N].
std::vector<float> values_of_ggml(const StoredWeight& w) {
  const auto rows = static_cast<size_t>(w.source.num_in), columns = static_cast<size_t>(w.source.num_out);
  std::vector<float> of_columns(rows * columns), out(rows * columns);
  const BlockType type = w.source.blocks.type;
  decode_blocks(type, w.codes.data(), of_columns.size() / static_cast<size_t>(block_shape(type).weights),
                of_columns.data());
  for (size_t n = 0; n < columns; ++n)
    for (size_t k = 0; k < rows; ++k) out[k * columns + n] = of_columns[n * rows + k] * w.source.prescale;
  return out;
}

// 768 rows: the last 128 rows are not alone in their block of 256. 72 columns leave a strip incomplete.
TEST_F(BlockWeightsTest, EveryTypeDequantizesAsItsTilesHoldIt) {
  for (const BlockType type : every_block_type()) {
    SCOPED_TRACE(name_of(type));
    StoredWeight w;
    make_blocks(w, type, 768, 72, random_);
    permute_columns(w, random_);
    check_values(w, 0.0);
  }
}

// Rows that are no multiple of 128, as few as one block.
TEST_F(BlockWeightsTest, ShortRowsDequantizeAsTheirTilesHoldThem) {
  for (const BlockType type : every_block_type()) {
    SCOPED_TRACE(name_of(type));
    const int32_t weights = block_shape(type).weights;
    for (const int32_t depth : {weights, 3 * weights, 7 * weights}) {
      StoredWeight w;
      make_blocks(w, type, depth, 33, random_);
      check_values(w, 0.0);
    }
  }
}

// A scale, a minimum and a weight are each rounded to 11 bits.
TEST_F(BlockWeightsTest, TilesAreNearTheValuesOfGgml) {
  for (const BlockType type : every_block_type()) {
    StoredWeight w;
    make_blocks(w, type, 512, 40, random_);
    w.source.prescale = 0.37f;
    Weight* weight = prepare({w.source});
    ASSERT_NE(weight, nullptr);
    std::vector<float> values(w.stored_values.size());
    ASSERT_EQ(table_->dequantize(device_, weight, values.data()), Status::ok);
    EXPECT_LT(relative_error(values, values_of_ggml(w)), 7e-4) << name_of(type);
  }
}

TEST_F(BlockWeightsTest, EveryTypeMatchesForFewAndManyRows) {
  for (const BlockType type : every_block_type()) check_type(type, 512, 72, {1, 3, 9, 20, 40});
}

// The last block of 128 rows is not full.
TEST_F(BlockWeightsTest, ShortRowsMatch) {
  for (const BlockType type : {BlockType::q4_0, BlockType::q5_1, BlockType::q8_0, BlockType::iq4_nl,
                               BlockType::mxfp4, BlockType::nvfp4, BlockType::q1_0, BlockType::q2_0})
    check_type(type, 5 * block_shape(type).weights, 40, {1, 8, 17, 33});
}

TEST_F(BlockWeightsTest, DeepMatricesMatchWithSplitK) {
  for (const BlockType type : {BlockType::q4_k, BlockType::q6_k, BlockType::q8_0})
    check_type(type, 4096, 64, {1, 3, 12, 40, 70});
}

// Sizes for which K is split in halves and quarters: see LinearTest.
TEST_F(BlockWeightsTest, HalvesAndQuartersOfKMatch) {
  check_type(BlockType::q4_k, 1024, 6144, {8, 20, 40, 70});
  check_type(BlockType::q6_k, 2048, 1024, {8, 40, 70});
}

TEST_F(BlockWeightsTest, ManyColumnsMatch) {
  check_type(BlockType::q4_k, 256, 9632, {1, 9, 33, 100});
  check_type(BlockType::q6_k, 256, 18432, {8, 33, 64});
}

// Shapes of few-strip and broad tiles: LinearTest.
TEST_F(BlockWeightsTest, BroadAndFewStripTilesMatch) {
  for (const BlockType type : {BlockType::q4_k, BlockType::q5_k, BlockType::q6_k}) {
    check_type(type, 1024, 4864, {8, 130});
    check_type(type, 3072, 12288, {8, 70});
  }
  for (const BlockType type : {BlockType::q2_k, BlockType::q3_k, BlockType::q8_0, BlockType::q5_1,
                               BlockType::iq4_xs, BlockType::iq2_s, BlockType::mxfp4, BlockType::nvfp4})
    check_type(type, 1024, 4864, {8, 130});
}

// As q, k and v, of which llama.cpp often stores v with more bits.
TEST_F(BlockWeightsTest, PartsOfSeveralTypesAreOneProduct) {
  StoredWeight q, k, v;
  make_blocks(q, BlockType::q4_k, 512, 160, random_);
  make_blocks(k, BlockType::iq4_xs, 512, 40, random_);
  make_blocks(v, BlockType::q6_k, 512, 40, random_);
  v.bias = random_floats(40, random_);
  v.source.bias = v.bias.data();
  permute_columns(v, random_);
  check_product({&q, &k, &v}, {1, 5, 33});
}

TEST_F(BlockWeightsTest, AGateAndAnUpOfSeveralTypesAreOneProduct) {
  for (const int32_t columns : {40, 328, 9632}) {
    SCOPED_TRACE(columns);
    StoredWeight gate, up;
    make_blocks(gate, BlockType::q4_k, 512, columns, random_);
    make_blocks(up, BlockType::q2_k, 512, columns, random_);
    check_product({&gate, &up}, {1, 5, 9, 24, 33, 70});
  }
}

TEST_F(BlockWeightsTest, BlocksBesideOtherFormatsMatch) {
  StoredWeight blocks, dense;
  make_blocks(blocks, BlockType::q5_k, 256, 96, random_);
  make_dense(dense, DType::f16, 256, 40, random_);
  check_product({&blocks, &dense}, {1, 9, 40});
}

// Scales from the largest to 2^-14 of it. An error may be 1e-3 of the largest weight of its block, plus 2^-18
// of the largest weight of all: the scale and the minimum are each rounded to a subnormal f16, by up to half
// a step.
TEST_F(BlockWeightsTest, ScalesOfAnyMagnitudeAreNearTheValuesOfGgml) {
  for (const BlockType type : {BlockType::q8_0, BlockType::q4_k, BlockType::q6_k, BlockType::q4_1}) {
    SCOPED_TRACE(name_of(type));
    StoredWeight w;
    make_blocks(w, type, 256, 64, random_);
    const auto [first, second] = scale_places(type);
    const auto bytes = static_cast<size_t>(block_shape(type).bytes);
    for (size_t b = 0; b * bytes < w.codes.size(); ++b) {
      const uint16_t scale = float_to_half(std::ldexp(1.0f, -static_cast<int>(b % 15)));
      put_half(w.codes.data() + b * bytes + static_cast<size_t>(first), scale);
      if (second >= 0) put_half(w.codes.data() + b * bytes + static_cast<size_t>(second), scale);
    }
    std::vector<float> values(w.stored_values.size());
    ASSERT_EQ(table_->dequantize(device_, prepare({w.source}), values.data()), Status::ok);
    const std::vector<float> expected = values_of_ggml(w);
    float largest = 0.0f;
    for (const float v : expected) largest = std::max(largest, std::abs(v));
    const auto weights = static_cast<size_t>(block_shape(type).weights);
    for (size_t n = 0; n < 64; ++n) {
      for (size_t first_row = 0; first_row < 256; first_row += weights) {
        float of_block = 0.0f;
        for (size_t k = first_row; k < first_row + weights; ++k)
          of_block = std::max(of_block, std::abs(expected[k * 64 + n]));
        for (size_t k = first_row; k < first_row + weights; ++k)
          ASSERT_NEAR(values[k * 64 + n], expected[k * 64 + n], 1e-3f * of_block + largest * 0x1p-18f)
              << "row " << k << " column " << n;
      }
    }
  }
}

// A minimum that is much larger than all scales decides the unit.
TEST_F(BlockWeightsTest, LargeMinimaAreNearTheValuesOfGgml) {
  StoredWeight w;
  make_blocks(w, BlockType::q4_1, 256, 64, random_);
  for (size_t at = 2; at < w.codes.size(); at += 20) put_half(w.codes.data() + at, float_to_half(-30000.0f));
  std::vector<float> values(w.stored_values.size());
  ASSERT_EQ(table_->dequantize(device_, prepare({w.source}), values.data()), Status::ok);
  EXPECT_LT(relative_error(values, values_of_ggml(w)), 1e-3);
}

// An output with a scale that is not finite is not a number; the others do not notice.
TEST_F(BlockWeightsTest, ScalesThatAreNotFiniteSpoilOnlyTheirOutput) {
  for (const BlockType type : every_block_type()) {
    if (type == BlockType::nvfp4) continue;  // has no such scale
    SCOPED_TRACE(name_of(type));
    StoredWeight w;
    make_blocks(w, type, 256, 40, random_);
    const auto [first, second] = scale_places(type);
    const size_t of_column = block_row_bytes(type, 256);
    uint8_t* block = w.codes.data() + 7 * of_column;
    if (first >= 0) put_half(block + first, 0x7e00);
    if (type == BlockType::mxfp4) block[0] = 255;
    if (type == BlockType::iq1_m)
      for (int i = 0; i < 4; ++i) block[49 + 2 * i] |= 0xf0;
    const std::vector<float> input = to_floats(to_halves(random_floats(9 * 256, random_)));
    const std::vector<double> expected = product(input, 9, {&w});
    Weight* weight = prepare({w.source});
    for (const size_t rows : {size_t{1}, size_t{9}}) {
      const std::vector<float> out =
          run_f32(weight, {input.begin(), input.begin() + static_cast<ptrdiff_t>(rows * 256)}, rows, 40);
      std::vector<float> others;
      std::vector<double> expected_others;
      for (size_t i = 0; i < out.size(); ++i) {
        if (i % 40 == 7) {
          EXPECT_TRUE(std::isnan(out[i])) << i;
        } else {
          others.push_back(out[i]);
          expected_others.push_back(expected[i]);
        }
      }
      EXPECT_LT(relative_error(others, expected_others), 1e-3) << rows << " rows";
    }
  }
}

TEST_F(BlockWeightsTest, BlocksReadFromAFileAreIdentical) {
  for (const BlockType type : {BlockType::q4_k, BlockType::iq2_xs, BlockType::q8_0}) {
    SCOPED_TRACE(name_of(type));
    StoredWeight w;
    make_blocks(w, type, 512, 72, random_);
    const testing::UnreadSource unread(w.source);
    std::vector<float> expected(w.stored_values.size()), values(w.stored_values.size());
    ASSERT_EQ(table_->dequantize(device_, prepare({w.source}), expected.data()), Status::ok);
    ASSERT_EQ(table_->dequantize(device_, prepare({unread.source()}), values.data()), Status::ok);
    EXPECT_EQ(values, expected);
    EXPECT_EQ(unread.num_read(), stored_bytes(w.source));
  }
}

// Bytes of 4,096 weights: docs/adr/0067.
TEST_F(BlockWeightsTest, TilesHaveTheBitsOfTheTable) {
  const std::pair<BlockType, uint64_t> sizes[] = {
      {BlockType::q4_0, 2304},   {BlockType::q4_1, 2560},   {BlockType::q5_0, 2816},
      {BlockType::q5_1, 3072},   {BlockType::q8_0, 4352},   {BlockType::q2_k, 1408},
      {BlockType::q3_k, 1856},   {BlockType::q4_k, 2432},   {BlockType::q5_k, 2944},
      {BlockType::q6_k, 3392},   {BlockType::iq2_s, 1856},  {BlockType::iq3_s, 2240},
      {BlockType::iq4_xs, 2240}, {BlockType::iq4_nl, 2304}, {BlockType::mxfp4, 2176},
      {BlockType::nvfp4, 2304},  {BlockType::tq1_0, 1280}};
  for (const auto& [type, bytes] : sizes) {
    StoredWeight w;
    make_blocks(w, type, 1024, 64, random_);
    const MatrixSource matrix = {&w.source, 1};
    uint64_t planned = 0;
    ASSERT_EQ(table_->plan_weights(device_, &matrix, 1, &planned), Status::ok);
    EXPECT_EQ(planned, 16 * bytes) << name_of(type);
    EXPECT_EQ(table_->weight_bytes(prepare({w.source})), planned) << name_of(type);
  }
}

TEST_F(BlockWeightsTest, RowsThatAreNoWholeBlocksAreRefused) {
  StoredWeight w;
  make_blocks(w, BlockType::q4_k, 256, 32, random_);
  Weight* weight = nullptr;
  w.source.num_in = 288;
  EXPECT_EQ(prepare_weight(*table_, device_, &w.source, 1, &weight), Status::invalid_argument);
  const TableSource table = {DType::f16, 32, 288, w.codes.data(), nullptr, BlockType::q4_k};
  EXPECT_EQ(table_->prepare_table(device_, &table, &weight), Status::invalid_argument);
  EXPECT_EQ(weight, nullptr);
}

TEST_F(BlockWeightsTest, EmbeddingsAreTheValuesOfGgmlBitForBit) {
  constexpr int32_t kRows = 10;
  for (const BlockType type : every_block_type()) {
    SCOPED_TRACE(name_of(type));
    const int32_t columns = 768, weights = block_shape(type).weights;
    const std::vector<uint8_t> blocks =
        random_blocks(type, static_cast<size_t>(kRows * columns / weights), random_);
    std::vector<float> expected(static_cast<size_t>(kRows * columns));
    decode_blocks(type, blocks.data(), expected.size() / static_cast<size_t>(weights), expected.data());
    const TableSource source = {DType::f16, kRows, columns, blocks.data(), nullptr, type};
    uint64_t planned = 0;
    ASSERT_EQ(table_->plan_table(device_, &source, &planned), Status::ok);
    Weight* weight = nullptr;
    ASSERT_EQ(table_->prepare_table(device_, &source, &weight), Status::ok);
    weights_.push_back(weight);
    EXPECT_EQ(table_->weight_bytes(weight), planned);
    EXPECT_EQ(planned, blocks.size() + 2 * block_grid(type).count);
    EmbedParams p;
    p.table = weight;
    p.scale = 3.0f;
    p.first_row = 2;
    p.token_ids = to_device(std::vector<int32_t>{7, -2, 4});
    p.num_tokens = 3;
    p.hidden = poisoned<float>(3 * static_cast<size_t>(columns));
    ASSERT_EQ(table_->embed(context_, &p), Status::ok);
    const std::vector<float> out = from_device(p.hidden, 3 * static_cast<size_t>(columns));
    const size_t rows[] = {9, 0, 6};
    for (size_t r = 0; r < 3; ++r)
      for (size_t c = 0; c < static_cast<size_t>(columns); ++c)
        ASSERT_EQ(out[r * static_cast<size_t>(columns) + c],
                  3.0f * expected[rows[r] * static_cast<size_t>(columns) + c])
            << "row " << r << " column " << c;
  }
}

// In the mode that uses cuBLASLt, tiles become rows of f16 first.
TEST_F(BlockWeightsTest, LargeProductsOfTheFastModeMatch) {
  close();
  open(false);
  if (device_ == nullptr) return;
  make_context(small_limits());
  for (const BlockType type : {BlockType::q4_k, BlockType::q6_k, BlockType::iq4_nl}) {
    StoredWeight w;
    make_blocks(w, type, 768, 1064, random_);
    const std::vector<float> input = to_floats(to_halves(random_floats(200 * 768, random_)));
    EXPECT_LT(relative_error(run_f32(prepare({w.source}), input, 200, 1064), product(input, 200, {&w})),
              4e-4);
  }
}

}  // namespace
}  // namespace quire::kernels
