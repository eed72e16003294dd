// Matrices of EXL3: values, products, memory, and the feed-forward block that fuses their transforms.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/interface/composite.h"
#include "tests/kernels/cuda/linear_fixture.h"
#include "tests/support/random_numbers.h"
#include "tests/support/trellis_fixture.h"
#include "tests/support/unread_source.h"

namespace quire::kernels {
namespace {

using testing::all_trellis_kinds;
using testing::make_trellis;
using testing::name_of;
using testing::TrellisFixture;
using testing::TrellisKind;

constexpr TrellisKind kFourBits = {TrellisCodebook::mul1, 8};
// Transformed inputs are rounded to f16.
constexpr double kTolerance = 3e-4;

size_t to_size(int32_t n) {
  return static_cast<size_t>(n);
}

// A matrix and its values. Neither is moved: the source points into the fixture.
struct TrellisWeight {
  explicit TrellisWeight(TrellisFixture made) : fixture(std::move(made)) { finish(); }
  TrellisWeight(const TrellisWeight&) = delete;
  TrellisWeight& operator=(const TrellisWeight&) = delete;

  // Called after a change of the fixture.
  void finish() {
    stored.source = fixture.source();
    const std::vector<double> matrix = testing::trellis_matrix(stored.source);
    stored.values.assign(matrix.begin(), matrix.end());
    stored.bias = fixture.bias;
    stored.column_order = fixture.column_order;
  }

  TrellisFixture fixture;
  StoredWeight stored;
};

class TrellisWeightsTest : public LinearTest {
 protected:
  TrellisFixture random_trellis(const TrellisKind& kind, int32_t num_in, int32_t num_out) {
    return make_trellis(kind, num_in, num_out, random_());
  }
  void check(const TrellisKind& kind, int32_t num_in, int32_t num_out,
             std::initializer_list<size_t> row_counts, double tolerance = kTolerance) {
    SCOPED_TRACE(name_of(kind) + ", " + std::to_string(num_in) + " x " + std::to_string(num_out));
    TrellisWeight w(random_trellis(kind, num_in, num_out));
    check_product({&w.stored}, row_counts, tolerance);
  }
  // Compares the first row of results for different numbers of rows, bit for bit, and returns it.
  template <typename Run>
  std::vector<float> row_in_company(std::initializer_list<size_t> row_counts, Run run) {
    std::vector<float> expected;
    for (const size_t rows : row_counts) {
      const std::vector<float> row = run(rows);
      if (expected.empty()) expected = row;
      EXPECT_EQ(std::memcmp(row.data(), expected.data(), row.size() * sizeof(float)), 0) << rows << " rows";
    }
    return expected;
  }
};

TEST_F(TrellisWeightsTest, EveryKindDequantizes) {
  for (const TrellisKind& kind : all_trellis_kinds()) {
    TrellisFixture matrix = random_trellis(kind, 150, 200);
    matrix.prescale = 1.5f;
    Weight* weight = prepare({matrix.source()});
    ASSERT_NE(weight, nullptr);
    std::vector<float> found(150 * 200);
    ASSERT_EQ(table_->dequantize(device_, weight, found.data()), Status::ok);
    const std::vector<double> expected = testing::trellis_matrix(matrix.source());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6) << name_of(kind);
  }
}

// With scales of 1, a second transform on both sides gives the values of the codebooks themselves.
TEST_F(TrellisWeightsTest, EveryKindIsDecodedBitForBit) {
  for (const TrellisKind& kind : all_trellis_kinds()) {
    TrellisFixture matrix = random_trellis(kind, 128, 256);
    std::fill(matrix.input_scales.begin(), matrix.input_scales.end(), uint16_t{0x3c00});
    std::fill(matrix.output_scales.begin(), matrix.output_scales.end(), uint16_t{0x3c00});
    std::vector<float> values(128 * 256);
    ASSERT_EQ(table_->dequantize(device_, prepare({matrix.source()}), values.data()), Status::ok);
    const std::vector<float> expected = testing::trellis_tiles(matrix.source());
    const auto sign = [](size_t a, size_t b) { return std::popcount(a & b & 127) % 2 != 0 ? -1.0 : 1.0; };
    std::vector<double> half(128 * 256);
    for (size_t k = 0; k < 128; ++k)
      for (size_t n = 0; n < 256; ++n)
        for (size_t i = 0; i < 128; ++i) half[k * 256 + n] += sign(k, i) * double{values[i * 256 + n]};
    for (size_t k = 0; k < 128; ++k) {
      for (size_t n = 0; n < 256; ++n) {
        double sum = 0.0;
        for (size_t i = 0; i < 128; ++i) sum += sign(n, i) * half[k * 256 + n / 128 * 128 + i];
        // Transforms in f32 err by up to this much. Neighbours in a codebook are further apart.
        ASSERT_NEAR(sum / 128, double{expected[k * 256 + n]}, 2e-6)
            << name_of(kind) << " row " << k << " column " << n;
      }
    }
  }
}

TEST_F(TrellisWeightsTest, EveryKindMatchesForFewAndManyRows) {
  for (const TrellisKind& kind : all_trellis_kinds()) check(kind, 256, 256, {1, 3, 9, 20, 40});
}

TEST_F(TrellisWeightsTest, EveryKindMatchesInBroadTiles) {
  for (const TrellisKind& kind : all_trellis_kinds()) check(kind, 256, 128, {1, 70, 130});
}

TEST_F(TrellisWeightsTest, EveryNumberOfRowsMatches) {
  check(kFourBits, 256, 256, {1, 2, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 130});
}

// Inputs and outputs that are no multiples of 128 are padded in the file. The bound is wider than elsewhere,
// because the errors of so few results do not average out.
TEST_F(TrellisWeightsTest, PaddedSizesMatch) {
  for (const int32_t num_in : {1, 17, 127, 130, 384})
    for (const int32_t num_out : {1, 96, 129})
      check({TrellisCodebook::mcg, 6}, num_in, num_out, {1, 5, 20}, 2e-3);
}

TEST_F(TrellisWeightsTest, DeepMatricesMatchWithSplitK) {
  check(kFourBits, 4096, 128, {1, 3, 12, 40, 70});
  check({TrellisCodebook::three_inst, 6}, 8320, 128, {1, 2, 9});
}

// Sizes for which K is split in halves and quarters: see LinearTest.
TEST_F(TrellisWeightsTest, HalvesAndQuartersOfKMatch) {
  check(kFourBits, 1024, 6144, {1, 20, 40, 70});
  check({TrellisCodebook::three_inst, 6}, 2048, 1024, {1, 20, 40, 70});
}

// From 512 strips on a block computes two of them.
TEST_F(TrellisWeightsTest, ManyColumnsMatch) {
  check(kFourBits, 128, 16384, {1, 8, 33});
}

TEST_F(TrellisWeightsTest, OrderBiasAndFactorMatch) {
  TrellisWeight w(random_trellis({TrellisCodebook::mul1, 5}, 256, 384));
  w.fixture.bias = random_floats(384, random_);
  w.fixture.prescale = 0.37f;
  testing::Random random(7);
  const auto check_order = [&](std::vector<int32_t> order) {
    w.fixture.column_order = std::move(order);
    w.finish();
    check_product({&w.stored}, {1, 6, 20}, kTolerance);
  };
  check_order({});
  check_order(random.permutation(384));
  check_order({300, 301, 302, 5, 5, 383, 0});  // a selection that repeats one
  std::vector<int32_t> slice(256);             // of a shard
  std::iota(slice.begin(), slice.end(), 64);
  check_order(slice);
}

// As q, k and v: each has scales of its own, so the inputs are transformed for each.
TEST_F(TrellisWeightsTest, PartsMatch) {
  TrellisWeight q(random_trellis(kFourBits, 512, 512)),
      k(random_trellis({TrellisCodebook::mcg, 4}, 512, 256)),
      v(random_trellis({TrellisCodebook::three_inst, 12}, 512, 200));
  v.fixture.bias = random_floats(200, random_);
  v.finish();
  check_product({&q.stored, &k.stored, &v.stored}, {1, 5, 9, 33, 70, 130}, kTolerance);
}

// Eight strips of a group would belong to two parts.
TEST_F(TrellisWeightsTest, PartsOfOneTransformMatch) {
  TrellisWeight q(random_trellis(kFourBits, 384, 128)), k(random_trellis(kFourBits, 384, 100)),
      v(random_trellis({TrellisCodebook::mul1, 7}, 384, 640));
  check_product({&q.stored, &k.stored, &v.stored}, {1, 8, 16, 40, 70, 130}, kTolerance);
}

// The context has too little memory for the inputs of all parts at once.
TEST_F(TrellisWeightsTest, PartsMatchOneAfterTheOther) {
  close();
  open(true);
  if (device_ == nullptr) return;
  ContextLimits limits = small_limits();
  limits.max_tokens = 64;
  limits.max_columns = 1024;
  make_context(limits);
  TrellisWeight a(random_trellis(kFourBits, 1000, 128)), b(random_trellis(kFourBits, 1000, 128)),
      c(random_trellis(kFourBits, 1000, 128));
  check_product({&a.stored, &b.stored, &c.stored}, {1, 8, 60}, kTolerance);
}

TEST_F(TrellisWeightsTest, APairMatches) {
  for (const int32_t columns : {100, 512}) {
    TrellisWeight gate(random_trellis(kFourBits, 256, columns)),
        up(random_trellis({TrellisCodebook::mcg, 6}, 256, columns));
    check_product({&gate.stored, &up.stored}, {1, 5, 9, 33, 70, 130}, kTolerance);
  }
}

TEST_F(TrellisWeightsTest, PartsBesideOtherFormatsMatch) {
  TrellisWeight trellis(random_trellis(kFourBits, 256, 128));
  StoredWeight dense;
  make_dense(dense, DType::f16, 256, 40, random_);
  check_product({&trellis.stored, &dense}, {1, 9, 40}, kTolerance);
}

TEST_F(TrellisWeightsTest, ProductsAddToTheResidual) {
  TrellisWeight w(random_trellis({TrellisCodebook::mcg, 8}, 256, 130));
  Weight* weight = prepare({w.stored.source});
  for (const size_t rows : {size_t{1}, size_t{3}, size_t{20}}) {
    const std::vector<float> input = to_floats(to_halves(random_floats(rows * 256, random_)));
    const std::vector<float> alone = run_f32(weight, input, rows, 130);
    LinearParams p;
    p.weight = weight;
    p.input = to_device(to_halves(input));
    p.rows = static_cast<int32_t>(rows);
    p.residual = to_device(std::vector<float>(rows * 130, 10.0f));
    ASSERT_EQ(table_->linear(context_, &p), Status::ok);
    const std::vector<float> out = from_device(p.residual, rows * 130);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], 10.0f + alone[i]) << rows << " rows";
  }
}

// A feed-forward block normalises, transforms and activates in the kernels of its products.
TEST_F(TrellisWeightsTest, AFeedForwardBlockIsThatOfSingleOperations) {
  constexpr int32_t kInner = 384, kRows = 70;
  // With 200 inputs the last transform is padded, and a single row is normalised by a kernel of its own.
  for (const auto& choice :
       {std::pair(256, NormKind::rms), std::pair(256, NormKind::layer), std::pair(200, NormKind::rms)}) {
    const int32_t num_hidden = choice.first;
    const NormKind kind = choice.second;
    const size_t columns = to_size(num_hidden);
    SCOPED_TRACE(std::to_string(num_hidden) + (kind == NormKind::layer ? ", layer norm" : ", RMS norm"));
    TrellisWeight gate(random_trellis(kFourBits, num_hidden, kInner)),
        up(random_trellis(kFourBits, num_hidden, kInner)),
        down(random_trellis({TrellisCodebook::mcg, 8}, kInner, num_hidden));
    gate.fixture.bias = random_floats(kInner, random_);
    gate.finish();
    MlpBlockParams m;
    m.gate_up = prepare({gate.stored.source, up.stored.source});
    m.down = prepare({down.stored.source});
    m.norm.kind = kind;
    m.norm.weight = to_device(random_floats(columns, random_));
    m.norm.columns = num_hidden;
    m.intermediate = kInner;
    m.workspace.normed = poisoned<uint16_t>(size_t{kRows} * columns);
    m.workspace.gate_up = poisoned<uint16_t>(size_t{kRows} * 2 * kInner);
    m.workspace.activated = poisoned<uint16_t>(size_t{kRows} * kInner);
    const std::vector<float> hidden = random_floats(size_t{kRows} * columns, random_);
    const auto run = [&](size_t rows, bool fused) {
      m.num_tokens = static_cast<int32_t>(rows);
      m.workspace.hidden = to_device(
          std::vector<float>(hidden.begin(), hidden.begin() + static_cast<ptrdiff_t>(rows * columns)));
      EXPECT_EQ(fused ? table_->mlp_block(context_, &m) : composed_mlp_block(context_, &m), Status::ok);
      return from_device(m.workspace.hidden, columns);
    };
    const std::vector<float> fused =
        row_in_company({1, 2, 8, 9, 40, 70}, [&](size_t rows) { return run(rows, true); });
    EXPECT_LT(relative_error(fused, run(3, false)), 1e-3);
  }
}

TEST_F(TrellisWeightsTest, RowsDoNotDependOnTheirCompany) {
  for (const TrellisKind& kind :
       {kFourBits, TrellisKind{TrellisCodebook::mul1, 7}, TrellisKind{TrellisCodebook::mcg, 6}}) {
    SCOPED_TRACE(name_of(kind));
    Weight* weight = prepare({TrellisWeight(random_trellis(kind, 500, 300)).stored.source});
    const std::vector<float> row = to_floats(to_halves(random_floats(500, random_)));
    row_in_company({1, 2, 3, 4, 8, 13, 64, 130}, [&](size_t rows) {
      std::vector<float> input = to_floats(to_halves(random_floats(rows * 500, random_, 100.0f)));
      const size_t place = random_() % rows;
      std::copy(row.begin(), row.end(), input.begin() + static_cast<ptrdiff_t>(place * 500));
      const std::vector<float> out = run_f32(weight, input, rows, 300);
      const auto own = out.begin() + static_cast<ptrdiff_t>(place * 300);
      return std::vector<float>(own, own + 300);
    });
  }
}

TEST_F(TrellisWeightsTest, ARowThatIsNotFiniteSpoilsItsOutputsOnly) {
  TrellisWeight w(random_trellis({TrellisCodebook::mul1, 4}, 256, 128));
  Weight* weight = prepare({w.stored.source});
  for (const size_t rows : {size_t{6}, size_t{9}}) {
    std::vector<float> input = to_floats(to_halves(random_floats(rows * 256, random_)));
    const std::vector<float> expected = run_f32(weight, input, rows, 128);
    input[4 * 256 + 17] = std::numeric_limits<float>::infinity();
    const std::vector<float> out = run_f32(weight, input, rows, 128);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / 128 == 4) {
        EXPECT_FALSE(std::isfinite(out[i]));
      } else {
        EXPECT_EQ(out[i], expected[i]);
      }
    }
  }
}

// Scales of any magnitude, and inputs as large as f16 allows.
TEST_F(TrellisWeightsTest, LargeInputsAndSmallScalesMatch) {
  for (const float size : {0x1p-14f, 1.0f, 1000.0f}) {
    SCOPED_TRACE(size);
    TrellisWeight w(random_trellis(kFourBits, 256, 128));
    for (uint16_t& scale : w.fixture.input_scales) scale = float_to_half(half_to_float(scale) * size);
    w.finish();
    Weight* weight = prepare({w.stored.source});
    std::vector<float> input = to_floats(to_halves(random_floats(3 * 256, random_)));
    input[7] = 65000.0f;
    EXPECT_LT(relative_error(run_f32(weight, input, 3, 128), product(input, 3, {&w.stored})), 1e-3);
  }
}

TEST_F(TrellisWeightsTest, TilesReadFromAFileAreIdentical) {
  const TrellisFixture matrix = random_trellis({TrellisCodebook::mcg, 6}, 256, 128);
  const testing::UnreadSource unread(matrix.source());
  std::vector<float> expected(256 * 128), values(256 * 128);
  ASSERT_EQ(table_->dequantize(device_, prepare({matrix.source()}), expected.data()), Status::ok);
  ASSERT_EQ(table_->dequantize(device_, prepare({unread.source()}), values.data()), Status::ok);
  EXPECT_EQ(values, expected);
  EXPECT_EQ(unread.num_read(), matrix.tiles.size() * sizeof(uint16_t));
}

TEST_F(TrellisWeightsTest, TilesHaveTheBitsOfTheFile) {
  for (const TrellisKind& kind : all_trellis_kinds()) {
    const TrellisFixture matrix = random_trellis(kind, 1024, 512);
    const WeightSource source = matrix.source();
    const MatrixSource all = {&source, 1};
    uint64_t planned = 0;
    ASSERT_EQ(table_->plan_weights(device_, &all, 1, &planned), Status::ok);
    EXPECT_EQ(table_->weight_bytes(prepare({source})), planned);
    // Beside the tiles: four bytes for each input, and eight for each output.
    EXPECT_EQ(planned, stored_bytes(source) + 1024 * 4 + 512 * 8) << name_of(kind);
  }
}

TEST_F(TrellisWeightsTest, OnlyTransformsOfUsedColumnsAreKept) {
  TrellisFixture matrix = random_trellis(kFourBits, 256, 1024);
  for (int32_t n = 256; n < 512; ++n) matrix.column_order.push_back(n);
  EXPECT_LT(table_->weight_bytes(prepare({matrix.source()})), 1.2 * 256 * 256 / 2);
}

TEST_F(TrellisWeightsTest, SourcesThatDoNotFitAreRefused) {
  const TrellisFixture matrix = random_trellis({TrellisCodebook::mul1, 5}, 128, 128);
  const auto prepared = [&](const WeightSource& source) {
    Weight* weight = nullptr;
    const Status status = prepare_weight(*table_, device_, &source, 1, &weight);
    EXPECT_EQ(weight, nullptr);
    return status;
  };
  WeightSource source = matrix.source();
  source.trellis.codebook = TrellisCodebook::mcg;  // which has no half bits
  EXPECT_EQ(prepared(source), Status::invalid_argument);
  source = matrix.source();
  source.trellis.half_bits = 18;
  EXPECT_EQ(prepared(source), Status::invalid_argument);
  source = matrix.source();
  source.padded_out = source.num_out = 120;
  EXPECT_EQ(prepared(source), Status::invalid_argument);
}

// In the mode that uses cuBLASLt these products have kernels of their own as well.
TEST_F(TrellisWeightsTest, LargeProductsOfTheFastModeMatch) {
  close();
  open(false);
  if (device_ == nullptr) return;
  make_context(small_limits());
  check(kFourBits, 256, 128, {1, 200});
}

}  // namespace
}  // namespace quire::kernels
