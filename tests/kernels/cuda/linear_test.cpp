// Compares products with prepared weights with sums in double precision over the values of the formats.
// Long file: one fixture tests every format and every kind of tile.
#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "tests/kernels/cuda/linear_fixture.h"
#include "tests/support/unread_source.h"

namespace quire::kernels {
namespace {

using Layout = std::vector<std::pair<int, int>>;

// Columns by rows that share a scale of 8-bit floats; 0: all. The last two are expanded to f16.
constexpr std::pair<int32_t, int32_t> kScaleBlocks[] = {
    {0, 0}, {1, 0}, {128, 128}, {1, 128}, {48, 256}, {5, 160}, {1, 32}, {7, 96}, {1, 64}, {48, 33}, {1, 16}};

// Makes a matrix of `depth` rows by `columns`.
using Maker = std::function<void(StoredWeight& w, int32_t depth, int32_t columns)>;

// Returns one for each format but EXL2.
std::vector<Maker> other_formats(std::mt19937& random) {
  return {
      [&](auto& w, int32_t depth, int32_t columns) { make_gptq(w, depth, columns, 128, true, random); },
      [&](auto& w, int32_t depth, int32_t columns) { make_eight_bits(w, depth, columns, depth, random); },
      [&](auto& w, int32_t depth, int32_t columns) { make_mxfp4(w, depth, columns, random); },
      [&](auto& w, int32_t depth, int32_t columns) { make_fp8(w, depth, columns, 128, 128, random); },
      [&](auto& w, int32_t depth, int32_t columns) { make_fp8(w, depth, columns, 1, 32, random); },
      [&](auto& w, int32_t depth, int32_t columns) { make_dense(w, DType::f16, depth, columns, random); }};
}

// Copies are split into chunks of 4 MiB: the first matrix is larger.
TEST_F(LinearTest, MatricesReadFromAFileAreIdentical) {
  std::vector<std::unique_ptr<StoredWeight>> stored;
  const auto add = [&](auto make) {
    stored.push_back(std::make_unique<StoredWeight>());
    make(*stored.back());
  };
  add([&](StoredWeight& w) { make_dense(w, DType::f32, 1040, 1056, random_); });
  add([&](StoredWeight& w) { make_dense(w, DType::f16, 96, 72, random_); });
  add([&](StoredWeight& w) { make_exl2(w, {{4, 64}, {3, 64}}, 72, true, random_); });
  add([&](StoredWeight& w) { make_gptq(w, 256, 72, 64, true, random_); });
  add([&](StoredWeight& w) { make_eight_bits(w, 256, 72, 64, random_); });
  add([&](StoredWeight& w) { make_mxfp4(w, 256, 72, random_); });
  add([&](StoredWeight& w) { make_fp8(w, 256, 128, 128, 128, random_); });
  for (const std::unique_ptr<StoredWeight>& w : stored) {
    const testing::UnreadSource unread(w->source);
    std::vector<float> expected(w->stored_values.size()), values(w->stored_values.size());
    ASSERT_EQ(table_->dequantize(device_, prepare({w->source}), expected.data()), Status::ok);
    ASSERT_EQ(table_->dequantize(device_, prepare({unread.source()}), values.data()), Status::ok);
    EXPECT_EQ(values, expected);
    EXPECT_EQ(unread.num_read(), stored_bytes(w->source));
  }
}

TEST_F(LinearTest, UnreadableMatricesTakeNoMemory) {
  StoredWeight w;
  make_dense(w, DType::f16, 96, 72, random_);
  const testing::UnreadSource broken(w.source, stored_bytes(w.source) - 1);
  const MatrixSource matrix = {&broken.source(), 1};
  const TableSource table = {DType::f16, 72, 96, nullptr, broken.unread()};
  table_->trim(device_);
  MemoryUse before, after;
  table_->memory_use(device_, &before);
  Weight* weight = nullptr;
  EXPECT_EQ(table_->prepare_weights(device_, &matrix, 1, &weight), Status::unreadable);
  EXPECT_EQ(table_->prepare_table(device_, &table, &weight), Status::unreadable);
  EXPECT_EQ(weight, nullptr);
  table_->trim(device_);
  table_->memory_use(device_, &after);
  EXPECT_EQ(after.held_bytes, before.held_bytes);
  EXPECT_EQ(after.pinned_bytes, before.pinned_bytes);
}

// Some of the stored outputs, including the last ones, and one of them twice.
TEST_F(LinearTest, OutputsAreSelectedAmongAllStoredColumns) {
  StoredWeight w;
  make_dense(w, DType::f16, 64, 96, random_);
  const std::vector<int32_t> order = {95, 2, 90, 95, 64};
  WeightSource source = w.source;
  source.num_out = static_cast<int32_t>(order.size());
  source.column_order = order.data();
  std::vector<float> identity(64 * 64, 0.0f);
  for (size_t k = 0; k < 64; ++k) identity[k * 64 + k] = 1.0f;
  const std::vector<float> values = run_f32(prepare({source}), identity, 64, order.size());
  for (size_t k = 0; k < 64; ++k)
    for (size_t j = 0; j < order.size(); ++j)
      ASSERT_EQ(values[k * order.size() + j], w.stored_values[k * 96 + static_cast<size_t>(order[j])]);
}

TEST_F(LinearTest, EveryExl2WidthDequantizesExactly) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    SCOPED_TRACE(bits);
    StoredWeight w;
    make_exl2(w, {{bits, 64}, {bits, 64}, {bits, 32}}, 72, true, random_);
    check_values(w, 0.0);
  }
}

TEST_F(LinearTest, MixedWidthsDequantizeExactly) {
  StoredWeight w;
  make_exl2(w, {{8, 32}, {6, 64}, {6, 32}, {5, 128}, {4, 64}, {4, 64}, {3, 32}, {2, 64}, {2, 32}}, 96, true,
            random_);
  permute_columns(w, random_);
  check_values(w, 0.0);
}

TEST_F(LinearTest, GroupsThatFitNoTileDequantizeExactly) {
  StoredWeight w;
  make_exl2(w, {{4, 32}, {2, 16}, {2, 16}, {2, 32}}, 40, true, random_, false);
  check_values(w, 0.0);
}

TEST_F(LinearTest, GptqDequantizesExactly) {
  for (const bool act_order : {false, true}) {
    StoredWeight w;
    make_gptq(w, 256, 72, 64, act_order, random_);
    check_values(w, 0.0);
  }
  StoredWeight odd;
  make_gptq(odd, 200, 48, 40, false, random_);
  check_values(odd, 0.0);
}

TEST_F(LinearTest, CodesOfEightBitsDequantizeExactly) {
  for (const int32_t group_size : {32, 128, 333}) {
    SCOPED_TRACE(group_size);
    StoredWeight w;
    make_eight_bits(w, 333, 75, group_size, random_);
    permute_columns(w, random_);
    check_values(w, 0.0);
  }
}

TEST_F(LinearTest, FourBitFloatsDequantizeExactly) {
  StoredWeight w;
  make_mxfp4(w, 288, 75, random_);
  permute_columns(w, random_);
  check_values(w, 0.0);
  StoredWeight wide;  // scales from the largest one to 2^-24 of it
  make_mxfp4(wide, 256, 40, random_);
  for (uint8_t& exponent : wide.codes) exponent = static_cast<uint8_t>(116 + random_() % 25);
  wide.stored_values.clear();
  finish_codes(wide, [&](size_t i) { return e8m0_to_float(wide.codes[i]); });
  check_values(wide, 0.0);
}

TEST_F(LinearTest, DenseTypesKeepTheirValues) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    StoredWeight w;
    make_dense(w, dtype, 77, 45, random_);
    check_values(w, 1e-7);
  }
  StoredWeight w;
  make_dense(w, DType::f32, 64, 33, random_);
  check_values(w, 5e-4);
}

TEST_F(LinearTest, EightBitFloatsDequantizeExactly) {
  for (const auto& [scale_out, scale_in] : kScaleBlocks) {
    SCOPED_TRACE(std::to_string(scale_out) + " x " + std::to_string(scale_in));
    StoredWeight w;
    make_fp8(w, 333, 144, scale_out, scale_in, random_);
    check_values(w, 0.0);
  }
  StoredWeight w;
  make_fp8(w, 256, 96, 32, 128, random_);
  permute_columns(w, random_);
  check_values(w, 0.0);
  check_product({&w}, {1, 9});
}

// Each row of activations selects one row of weights, whose values must be returned unchanged.
TEST_F(LinearTest, EveryEightBitFloatIsExact) {
  StoredWeight w;
  make_fp8(w, 256, 33, 1, 0, random_);
  for (size_t n = 0; n < 33; ++n) {
    for (size_t k = 0; k < 256; ++k) {
      const auto code = static_cast<uint8_t>(is_e4m3_nan(static_cast<uint8_t>(k)) ? 0 : k);
      w.codes[n * 256 + k] = code;
      w.values[k * 33 + n] = e4m3_to_float(code) * w.floats[n];
    }
  }
  Weight* weight = prepare({w.source});
  ASSERT_NE(weight, nullptr);
  std::vector<float> identity(size_t{256} * 256, 0.0f);
  for (size_t k = 0; k < 256; ++k) identity[k * 256 + k] = 1.0f;
  EXPECT_EQ(run_f32(weight, identity, 256, 33), w.values);
  for (size_t k = 0; k < 256; k += 5) {
    const size_t rows = std::min(size_t{5}, 256 - k);
    const auto first = static_cast<ptrdiff_t>(k), end = static_cast<ptrdiff_t>(k + rows);
    EXPECT_EQ(run_f32(weight, {identity.begin() + first * 256, identity.begin() + end * 256}, rows, 33),
              std::vector<float>(w.values.begin() + first * 33, w.values.begin() + end * 33))
        << "codes from " << k;
  }
}

// The largest and smallest scales that a matrix may have.
TEST_F(LinearTest, ScalesOfAnyMagnitudeMultiplyEightBitFloats) {
  StoredWeight w;
  make_fp8(w, 384, 66, 1, 128, random_);
  const float scales[] = {kMaxE4m3Scale, 0.0f, 1e-30f, 1e-12f, 1.0f, 0.375f, 3e-5f};
  for (size_t i = 0; i < w.floats.size(); ++i) w.floats[i] = scales[i / 3 % std::size(scales)];
  for (size_t n = 0; n < 66; ++n)
    for (size_t k = 0; k < 384; ++k)
      w.values[k * 66 + n] = e4m3_to_float(w.codes[n * 384 + k]) * w.floats[n * 3 + k / 128];
  Weight* weight = prepare({w.source});
  ASSERT_NE(weight, nullptr);
  const std::vector<float> input = to_floats(to_halves(random_floats(20 * 384, random_)));
  const std::vector<double> expected = product(input, 20, {&w});
  const std::vector<float> out = run_f32(weight, input, 20, 66);
  for (size_t n = 0; n < 66; ++n) {  // column by column: their magnitudes differ widely
    std::vector<float> column;
    std::vector<double> of_column;
    for (size_t r = 0; r < 20; ++r) {
      column.push_back(out[r * 66 + n]);
      of_column.push_back(expected[r * 66 + n]);
    }
    if (w.floats[n * 3] == 0.0f) {
      EXPECT_EQ(column, std::vector<float>(20, 0.0f));
    } else {
      EXPECT_LT(relative_error(column, of_column), 2e-5) << "scale " << w.floats[n * 3];
    }
  }
}

// One byte per code, and 128 bytes for the scales of 32 columns by 128 rows; two bytes per code if groups are
// finer than that, or no multiples of 32.
TEST_F(LinearTest, EightBitFloatsStayEightBits) {
  const struct {
    int32_t scale_in;
    uint64_t bytes;
  } forms[] = {{0, 64 * 1024 * 33 / 32}, {128, 64 * 1024 * 33 / 32}, {512, 64 * 1024 * 33 / 32},
               {32, 64 * 1024 * 9 / 8},  {64, 64 * 1024 * 9 / 8},    {48, 64 * 1024 * 2}};
  for (const auto& form : forms) {
    StoredWeight w;
    make_fp8(w, 1024, 64, 1, form.scale_in, random_);
    Weight* weight = prepare({w.source});
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(table_->weight_bytes(weight), form.bytes) << form.scale_in;
  }
}

TEST_F(LinearTest, ScalesThatDoNotFitAreRefused) {
  for (const auto& [scale_out, scale_in] : {std::pair{97, 256}, {96, 257}, {-1, 1}, {1, -1}}) {
    StoredWeight w;
    make_fp8(w, 256, 96, 0, 0, random_);
    w.source.dense.scale_out = scale_out;
    w.source.dense.scale_in = scale_in;
    Weight* weight = nullptr;
    EXPECT_EQ(prepare_weight(*table_, device_, &w.source, 1, &weight), Status::invalid_argument);
    EXPECT_EQ(weight, nullptr);
  }
}

TEST_F(LinearTest, Exl2ProductsMatchForAnyNumberOfRows) {
  StoredWeight w;
  make_exl2(w, {{6, 32}, {5, 128}, {4, 128}, {4, 128}, {3, 128}, {3, 96}}, 200, true, random_);
  check_product({&w}, {1, 2, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 130});
}

TEST_F(LinearTest, DeepMatricesMatchWithSplitK) {
  StoredWeight w;
  make_exl2(w, {{4, 2048}, {3, 2016}}, 64, true, random_);
  check_product({&w}, {1, 3, 12, 40, 70});
}

TEST_F(LinearTest, MatricesOfManyRowsMatch) {
  StoredWeight w;
  make_exl2(w, {{5, 128}, {4, 8192}, {3, 6016}}, 96, true, random_);
  check_product({&w}, {1, 12, 20, 40});
}

TEST_F(LinearTest, MatricesOfManyColumnsMatch) {
  StoredWeight w;
  make_exl2(w, {{6, 32}, {5, 96}, {4, 128}}, 9632, true, random_);
  check_product({&w}, {1, 9, 33, 100});
}

// Enough columns and, below, rows that cards of up to 148 multiprocessors use tiles of 64 tokens: see
// GemmShapeTest.
TEST_F(LinearTest, TilesOf64TokensMatchForAllWidths) {
  StoredWeight w;
  make_exl2(w, {{6, 32}, {5, 64}, {4, 128}}, 18432, true, random_);
  check_product({&w}, {8, 33, 64, 100});
  for (const int bits : {2, 3, 8}) {
    SCOPED_TRACE(bits);
    StoredWeight one;
    make_exl2(one, {{bits, 128}, {bits, 96}}, 18432, false, random_);
    check_product({&one}, {17, 40});
  }
}

TEST_F(LinearTest, TilesOf64TokensMatchForAGateAndAnUp) {
  StoredWeight gate, up;
  make_exl2(gate, {{5, 128}, {3, 96}}, 9216, false, random_);
  make_exl2(up, {{4, 96}, {2, 128}}, 9216, false, random_);
  check_product({&gate, &up}, {9, 33, 57});
}

TEST_F(LinearTest, TilesOf64TokensMatchForOtherFormats) {
  StoredWeight gptq, bytes, four, floats, fine, dense;
  make_gptq(gptq, 256, 18432, 128, false, random_);
  check_product({&gptq}, {16, 33, 64});
  make_eight_bits(bytes, 256, 18432, 128, random_);
  check_product({&bytes}, {16, 64});
  make_mxfp4(four, 256, 18432, random_);
  check_product({&four}, {16, 61});
  make_fp8(floats, 224, 18432, 128, 128, random_);
  check_product({&floats}, {16, 35, 64});
  make_fp8(fine, 224, 18432, 1, 32, random_);
  check_product({&fine}, {16, 64});
  make_dense(dense, DType::f16, 200, 18432, random_);
  check_product({&dense}, {16, 61});
}

// Full and partly empty tiles on cards with warpgroup products: few-strip tiles (GemmShape::few_strips) of 64
// tokens (130 tokens, 1,024 rows by 4,864 columns) and broad ones of 128 (70 tokens, 3,072 by 12,288). See
// GemmShapeTest.
TEST_F(LinearTest, BroadAndFewStripTilesMatchForAllWidths) {
  StoredWeight few, many;
  make_exl2(few, {{8, 64}, {6, 192}, {5, 256}, {4, 256}, {3, 128}, {2, 128}}, 4864, true, random_);
  check_product({&few}, {8, 130});
  make_exl2(many, {{8, 64}, {6, 192}, {5, 1024}, {4, 1024}, {3, 384}, {2, 384}}, 12288, true, random_);
  check_product({&many}, {8, 70});
}

TEST_F(LinearTest, BroadTilesMatchForAGateAndAnUp) {
  StoredWeight gate, up;
  // Chains of two and three blocks of 128 rows: a ring slot is released while the next block's products run.
  make_exl2(gate, {{5, 1280}, {3, 1024}}, 6656, false, random_);
  make_exl2(up, {{4, 2304}}, 6656, false, random_);
  check_product({&gate, &up}, {9, 256});
}

TEST_F(LinearTest, BroadAndFewStripTilesMatchForOtherFormats) {
  for (const Maker& make : other_formats(random_)) {
    StoredWeight few, many;
    make(few, 1024, 4864);
    check_product({&few}, {16, 130});
    make(many, 3072, 12288);
    check_product({&many}, {16, 70});
  }
}

// Sizes for which cards without warpgroup products split K in halves and quarters: 6,144 and 16,384 columns
// on a card of 132 multiprocessors, the others on an emulated one of 16. See GemmShapeTest.
TEST_F(LinearTest, HalvesAndQuartersOfKMatch) {
  StoredWeight many, more, few, fewer;
  make_exl2(many, {{5, 384}, {4, 384}, {3, 256}}, 6144, true, random_);
  check_product({&many}, {1, 20, 40, 70});
  make_exl2(more, {{5, 384}, {4, 384}, {3, 256}}, 16384, true, random_);
  check_product({&more}, {1, 20, 40});
  make_exl2(few, {{5, 384}, {4, 384}, {3, 256}}, 1024, true, random_);
  check_product({&few}, {1, 20, 40});
  make_exl2(fewer, {{5, 896}, {4, 896}, {3, 256}}, 1024, true, random_);
  check_product({&fewer}, {1, 70});
}

TEST_F(LinearTest, HalvesAndQuartersOfKMatchForOtherFormats) {
  for (const Maker& make : other_formats(random_)) {
    StoredWeight many, few;
    make(many, 1024, 6144);
    check_product({&many}, {16, 20, 40, 70});
    make(few, 2048, 1024);
    check_product({&few}, {16, 40, 70});
  }
}

// K is split into halves, quarters and eighths.
TEST_F(LinearTest, BroadTilesOfDeepMatricesMatchWithSplitK) {
  StoredWeight deep;
  make_exl2(deep, {{5, 1024}, {4, 13312}, {3, 2048}}, 3584, true, random_);
  check_product({&deep}, {17, 100, 130});
  StoredWeight deeper;
  make_exl2(deeper, {{5, 1024}, {4, 25600}, {3, 2048}}, 2048, true, random_);
  check_product({&deeper}, {17, 70});
}

TEST_F(LinearTest, TilesOf64TokensOfDeepMatricesMatchWithSplitK) {
  StoredWeight w;
  make_exl2(w, {{5, 128}, {4, 8192}, {3, 3968}}, 4096, true, random_);
  check_product({&w}, {17, 40});
}

TEST_F(LinearTest, GroupsOfAllSizesAndPlacesMatch) {
  StoredWeight w;
  make_exl2(
      w,
      {{8, 32}, {6, 64}, {6, 64}, {6, 32}, {5, 128}, {4, 256}, {4, 96}, {3, 32}, {3, 32}, {3, 32}, {2, 64}},
      72, true, random_);
  check_product({&w}, {1, 5, 18});
}

TEST_F(LinearTest, PartsThatShareRowsAreOneProduct) {
  StoredWeight q, k, v;
  make_exl2(q, {{5, 64}, {4, 128}, {3, 64}}, 160, true, random_);
  make_exl2(k, {{4, 256}}, 40, true, random_);
  make_exl2(v, {{6, 32}, {4, 224}}, 40, true, random_);
  for (StoredWeight* part : {&k, &v}) {
    StoredWeight again;
    const std::vector<std::pair<int, int>> layout = part == &k ? Layout{{4, 256}} : Layout{{6, 32}, {4, 224}};
    make_exl2(again, layout, 40, false, random_);
    again.row_order = q.row_order;
    const std::vector<float> in_order = again.stored_values;
    for (size_t r = 0; r < 256; ++r)
      for (size_t n = 0; n < 40; ++n)
        again.stored_values[static_cast<size_t>(q.row_order[r]) * 40 + n] = in_order[r * 40 + n];
    *part = std::move(again);
    part->source.row_order = part->row_order.data();
    part->finish_columns();
  }
  check_product({&q, &k, &v}, {1, 5, 33});
}

// The inputs of layers with a recurrent state have up to seven parts.
TEST_F(LinearTest, MorePartsThanAProductTakesMatch) {
  std::array<StoredWeight, 7> quantized, plain;
  std::vector<StoredWeight*> all, all_plain;
  for (size_t p = 0; p < quantized.size(); ++p) {
    const int columns = 24 + 40 * static_cast<int>(p);
    make_exl2(quantized[p], {{p % 2 == 0 ? 4 : 5, 256}}, columns, false, random_);
    make_dense(plain[p], DType::f16, 256, columns, random_);
    all.push_back(&quantized[p]);
    all_plain.push_back(&plain[p]);
  }
  check_product(all, {1, 5, 33});
  check_product(all_plain, {1, 5, 33});
}

TEST_F(LinearTest, AGateAndAnUpOfDifferentWidthsAreOneProduct) {
  for (const int columns : {40, 328, 9632}) {
    SCOPED_TRACE(columns);
    StoredWeight gate, up;
    make_exl2(gate, {{5, 128}, {4, 160}, {3, 96}}, columns, false, random_);
    make_exl2(up, {{6, 32}, {4, 224}, {2, 128}}, columns, false, random_);
    check_product({&gate, &up}, {1, 5, 9, 24, 33, 70});
  }
}

TEST_F(LinearTest, PartsOfDifferentRowOrdersStillMatch) {
  StoredWeight a, b;
  make_exl2(a, {{4, 256}}, 96, true, random_);
  make_exl2(b, {{3, 256}}, 64, true, random_);
  check_product({&a, &b}, {1, 6, 20});
}

TEST_F(LinearTest, GptqProductsMatch) {
  for (const bool act_order : {false, true}) {
    StoredWeight w;
    make_gptq(w, 512, 136, 128, act_order, random_);
    check_product({&w}, {1, 8, 19, 64, 100});
  }
}

TEST_F(LinearTest, EightBitProductsMatch) {
  for (const int32_t group_size : {32, 128, 512}) {
    StoredWeight w;
    make_eight_bits(w, 512, 136, group_size, random_);
    check_product({&w}, {1, 8, 19, 33, 64, 100});
  }
  StoredWeight four, eight;
  make_gptq(four, 512, 96, 128, false, random_);
  make_eight_bits(eight, 512, 96, 128, random_);
  check_product({&four, &eight}, {1, 9, 24, 33});
}

TEST_F(LinearTest, FourBitFloatProductsMatch) {
  StoredWeight w, gate, up;
  make_mxfp4(w, 736, 136, random_);
  check_product({&w}, {1, 8, 19, 33, 64, 100});
  make_mxfp4(gate, 512, 96, random_);
  make_mxfp4(up, 512, 96, random_);
  check_product({&gate, &up}, {1, 9, 24, 33, 70});
}

TEST_F(LinearTest, DenseProductsMatchForOddShapes) {
  StoredWeight w;
  make_dense(w, DType::f16, 333, 77, random_);
  check_product({&w}, {1, 5, 16, 31, 64, 67});
}

// Tiles that leave memory for the smallest number of ring slots.
TEST_F(LinearTest, DenseMatricesOfManyColumnsMatch) {
  StoredWeight w;
  make_dense(w, DType::f16, 700, 25600, random_);
  check_product({&w}, {1, 9, 33});
}

TEST_F(LinearTest, EightBitFloatProductsMatchForAnyNumberOfRows) {
  for (const auto& [scale_out, scale_in] : kScaleBlocks) {
    SCOPED_TRACE(std::to_string(scale_out) + " x " + std::to_string(scale_in));
    StoredWeight w;
    make_fp8(w, 845, 203, scale_out, scale_in, random_);
    const bool expanded = scale_in % 32 != 0;  // weights are rounded to f16
    check_product({&w}, {1, 2, 8, 9, 16, 17, 32, 33, 64, 100}, expanded ? 4e-4 : 2e-4);
  }
}

TEST_F(LinearTest, DeepMatricesOfEightBitFloatsMatch) {
  StoredWeight one, many;
  make_fp8(one, 8320, 72, 1, 0, random_);
  check_product({&one}, {1, 8, 9, 16, 17, 40});
  make_fp8(many, 4160, 72, 72, 160, random_);  // segments of more forms than supported
  check_product({&many}, {1, 8, 9, 16, 17, 40});
}

TEST_F(LinearTest, PartsOfEightBitFloatsMatchWhateverTheirScales) {
  StoredWeight q, k, v;
  make_fp8(q, 333, 96, 1, 0, random_);
  make_fp8(k, 333, 40, 0, 0, random_);
  make_fp8(v, 333, 40, 1, 32, random_);
  check_product({&q, &k}, {1, 8, 33});
  check_product({&q, &k, &v}, {1, 8, 9, 17, 33});
  for (const int columns : {40, 328, 9632}) {
    SCOPED_TRACE(columns);
    StoredWeight gate, up, fine;
    make_fp8(gate, 384, columns, std::min(columns, 128), 128, random_);
    make_fp8(up, 384, columns, 1, 0, random_);
    make_fp8(fine, 384, columns, 1, 64, random_);
    check_product({&gate, &up}, {1, 5, 9, 24, 33, 70});
    check_product({&gate, &fine}, {1, 9, 24});
  }
}

TEST_F(LinearTest, GptqPartsOfDifferentGroupsMatch) {
  StoredWeight a, b;
  make_gptq(a, 512, 96, 128, false, random_);
  make_gptq(b, 512, 96, 32, false, random_);
  check_product({&a, &b}, {1, 9, 24, 33});
}

TEST_F(LinearTest, BiasFollowsTheColumns) {
  StoredWeight w;
  make_exl2(w, {{4, 128}}, 64, false, random_);
  w.bias = random_floats(64, random_);
  w.source.bias = w.bias.data();
  permute_columns(w, random_);
  check_product({&w}, {1, 9});
}

TEST_F(LinearTest, ResidualsAreAddedToAndHalvesRounded) {
  StoredWeight w;
  make_exl2(w, {{4, 1024}}, 128, true, random_);
  Weight* weight = prepare({w.source});
  const std::vector<float> input = to_floats(to_halves(random_floats(3 * 1024, random_)));
  const std::vector<float> before = random_floats(3 * 128, random_);
  std::vector<double> expected = product(input, 3, {&w});
  LinearParams p;
  p.weight = weight;
  p.input = to_device(to_halves(input));
  p.rows = 3;
  auto* half_out = poisoned<uint16_t>(3 * 128);
  p.output = half_out;
  ASSERT_EQ(table_->linear(context_, &p), Status::ok);
  EXPECT_LT(relative_error(to_floats(from_device(half_out, 3 * 128)), expected), 1e-3);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += static_cast<double>(before[i]);
  p.output = nullptr;
  p.residual = to_device(before);
  ASSERT_EQ(table_->linear(context_, &p), Status::ok);
  const std::vector<float> together = from_device(p.residual, 3 * 128);
  EXPECT_LT(relative_error(together, expected), 2e-4);
  // As the columns of a shard in wider rows.
  constexpr size_t kWide = 300, kFirst = 96;
  std::vector<float> wide(3 * kWide, 7.0f), wide_expected = wide;
  for (size_t i = 0; i < before.size(); ++i) {
    wide[i / 128 * kWide + kFirst + i % 128] = before[i];
    wide_expected[i / 128 * kWide + kFirst + i % 128] = together[i];
  }
  float* const rows = to_device(wide);
  p.residual = rows + kFirst;
  p.output_stride = kWide;
  ASSERT_EQ(table_->linear(context_, &p), Status::ok);
  EXPECT_EQ(from_device(rows, wide.size()), wide_expected);
}

// Written two at a time if columns come in pairs.
TEST_F(LinearTest, HalvesAreRoundedFloatsForAnyFirstColumn) {
  for (const auto& widths : {std::vector<int32_t>{128}, {130}, {131}, {131, 64}, {34, 94}}) {
    std::vector<StoredWeight> parts(widths.size());
    std::vector<WeightSource> sources;
    size_t columns = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      make_exl2(parts[p], {{4, 160}, {3, 96}}, widths[p], false, random_);
      sources.push_back(parts[p].source);
      columns += static_cast<size_t>(widths[p]);
    }
    Weight* weight = prepare(sources);
    ASSERT_NE(weight, nullptr);
    for (const size_t rows : {size_t{1}, size_t{9}, size_t{24}, size_t{45}, size_t{130}}) {
      SCOPED_TRACE(std::to_string(columns) + " columns, " + std::to_string(rows) + " rows");
      const std::vector<float> input = random_floats(rows * 256, random_);
      const std::vector<float> floats = run_f32(weight, input, rows, columns);
      LinearParams p;
      p.weight = weight;
      p.input = to_device(to_halves(input));
      p.rows = static_cast<int32_t>(rows);
      auto* halves = poisoned<uint16_t>(rows * columns);
      p.output = halves;
      ASSERT_EQ(table_->linear(context_, &p), Status::ok);
      EXPECT_EQ(from_device(halves, rows * columns), to_halves(floats));
    }
  }
}

TEST_F(LinearTest, LargeProductsOfTheFastModeMatch) {
  close();
  open(false);
  if (device_ == nullptr) return;
  make_context(small_limits());
  StoredWeight w;
  make_exl2(w, {{5, 128}, {4, 512}, {3, 128}}, 1064, true, random_);
  w.bias = random_floats(1064, random_);
  w.source.bias = w.bias.data();
  Weight* plain = prepare({w.source});
  const std::vector<float> input = to_floats(to_halves(random_floats(200 * 768, random_)));
  const std::vector<double> expected = product(input, 200, {&w});
  // Here weights are rounded to f16.
  EXPECT_LT(relative_error(run_f32(plain, input, 200, 1064), expected), 4e-4);
  StoredWeight floats;
  make_fp8(floats, 768, 1064, 128, 128, random_);
  EXPECT_LT(
      relative_error(run_f32(prepare({floats.source}), input, 200, 1064), product(input, 200, {&floats})),
      4e-4);
}

MemoryUse memory_of(const KernelTable& table, const Device* device) {
  MemoryUse use;
  table.memory_use(device, &use);
  return use;
}

// Together they use the pages of their total size, as planned; the memory is freed with the last of them.
TEST_F(LinearTest, MatricesPreparedTogetherShareOneMemoryBlock) {
  table_->trim(device_);
  const uint64_t before = memory_of(*table_, device_).held_bytes;
  StoredWeight a, b, c;
  make_exl2(a, {{5, 128}, {4, 256}}, 1000, true, random_);
  make_exl2(b, {{4, 384}}, 5000, true, random_);
  make_exl2(c, {{6, 384}}, 7000, false, random_);
  const std::vector<MatrixSource> matrices = {{&a.source, 1}, {&b.source, 1}, {&c.source, 1}};
  std::vector<uint64_t> planned(3);
  ASSERT_EQ(table_->plan_weights(device_, matrices.data(), 3, planned.data()), Status::ok);
  std::vector<Weight*> weights(3);
  ASSERT_EQ(table_->prepare_weights(device_, matrices.data(), 3, weights.data()), Status::ok);
  table_->trim(device_);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(table_->weight_bytes(weights[i]), planned[i]);
  const uint64_t taken = table_->taken_bytes(planned[0] + planned[1] + planned[2]);
  EXPECT_EQ(taken % (2U << 20), 0U);
  EXPECT_EQ(memory_of(*table_, device_).held_bytes, before + taken);

  const std::vector<float> input = to_floats(to_halves(random_floats(3 * 384, random_)));
  table_->release_weight(device_, weights[0]);
  table_->release_weight(device_, weights[2]);
  EXPECT_EQ(memory_of(*table_, device_).held_bytes, before + taken);
  EXPECT_LT(relative_error(run_f32(weights[1], input, 3, 5000), product(input, 3, {&b})), 2e-4);
  for (void* memory : std::exchange(memory_, {})) table_->release(device_, memory);
  table_->release_weight(device_, weights[1]);
  EXPECT_EQ(memory_of(*table_, device_).held_bytes, before);
}

TEST_F(LinearTest, MatricesPreparedTogetherSucceedOrFailTogether) {
  table_->trim(device_);
  const uint64_t before = memory_of(*table_, device_).held_bytes;
  StoredWeight good, bad;
  make_exl2(good, {{4, 128}}, 64, true, random_);
  make_exl2(bad, {{4, 64}, {3, 64}}, 64, false, random_);
  bad.groups[1].first_row = 32;
  const std::vector<MatrixSource> matrices = {{&good.source, 1}, {&bad.source, 1}};
  std::vector<Weight*> weights(2, reinterpret_cast<Weight*>(1));
  EXPECT_EQ(table_->prepare_weights(device_, matrices.data(), 2, weights.data()), Status::invalid_argument);
  EXPECT_EQ(weights, std::vector<Weight*>(2, nullptr));
  EXPECT_EQ(memory_of(*table_, device_).held_bytes, before);
}

// The staging buffer of a large matrix is freed with it, not at the end of the load.
TEST_F(LinearTest, StagingMemoryOfALargeMatrixIsFreed) {
  table_->trim(device_);
  const uint64_t before = memory_of(*table_, device_).held_bytes;
  const std::vector<uint16_t> zeros(size_t{4096} * 8448, 0);  // 66 MiB
  WeightSource source;
  source.num_in = 4096;
  source.num_out = source.padded_out = 8448;
  source.dense = {DType::f16, zeros.data()};
  Weight* weight = prepare({source});
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(memory_of(*table_, device_).held_bytes,
            before + table_->taken_bytes(table_->weight_bytes(weight)));
}

// The staging memory in use at a time is limited, however many threads load.
TEST_F(LinearTest, LargeMatricesOfManyThreadsShareStagingMemory) {
  close();
  constexpr size_t kThreads = 8;
  const std::vector<uint16_t> zeros(size_t{4096} * 8448, 0);  // 66 MiB
  WeightSource source;
  source.num_in = 4096;
  source.num_out = source.padded_out = 8448;
  source.dense = {DType::f16, zeros.data()};
  const MatrixSource matrix = {&source, 1};
  DeviceOptions options;
  options.memory_limit_bytes = (kThreads * 70 + 140) << 20;  // two of them in flight
  ASSERT_EQ(cuda_backend()->open_device(0, &options, &device_), Status::ok);
  table_ = cuda_backend()->table(device_);
  std::vector<Weight*> weights(kThreads, nullptr);
  std::vector<Status> statuses(kThreads, Status::unsupported);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i)
      threads.emplace_back(
          [&, i] { statuses[i] = table_->prepare_weights(device_, &matrix, 1, &weights[i]); });
  }
  for (size_t i = 0; i < kThreads; ++i) {
    EXPECT_EQ(statuses[i], Status::ok);
    if (weights[i] != nullptr) weights_.push_back(weights[i]);
  }
}

TEST_F(LinearTest, AMalformedMatrixIsRefused) {
  StoredWeight w;
  make_exl2(w, {{4, 64}, {3, 64}}, 64, false, random_);
  w.groups[1].first_row = 32;
  Weight* weight = nullptr;
  const Status refused = prepare_weight(*table_, device_, &w.source, 1, &weight);
  EXPECT_EQ(refused, Status::invalid_argument);
  EXPECT_EQ(weight, nullptr);
  EXPECT_STRNE(refused.words, "");
}

}  // namespace
}  // namespace quire::kernels
