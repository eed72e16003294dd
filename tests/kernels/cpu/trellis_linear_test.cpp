// Products and values of matrices of EXL3, compared with the formula in double precision.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/interface/half.h"
#include "kernels/interface/stored_bytes.h"
#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/case_stride.h"
#include "tests/support/trellis_fixture.h"
#include "tests/support/unread_source.h"

namespace quire::testing {
namespace {

using kernels::Status;
using kernels::TrellisCodebook;
using kernels::WeightSource;

size_t to_size(int32_t count) {
  return static_cast<size_t>(count);
}

TEST(TrellisTiles, HaveTheValuesOfTheFormula) {
  for (const TrellisKind& kind : all_trellis_kinds()) {
    const TrellisFixture matrix = make_trellis(kind, 128, 256, fresh_seed());
    const std::vector<float> expected = trellis_tiles(matrix.source());
    const auto words = to_size(kernels::trellis_tile_words(kind.half_bits));
    ASSERT_EQ(matrix.tiles.size(), 8 * 16 * words);
    for (size_t tile = 0; tile < 8 * 16; ++tile) {
      uint16_t codes[256];
      kernels::read_trellis_tile(&matrix.tiles[tile * words], kind.half_bits, codes);
      for (size_t i = 0; i < 256; ++i) {
        const size_t row = tile / 16 * 16 + i / 16, column = tile % 16 * 16 + i % 16;
        ASSERT_EQ(kernels::half_to_float(kernels::trellis_value(kind.codebook, codes[i])),
                  expected[row * 256 + column])
            << name_of(kind);
      }
    }
  }
}

TEST(TrellisWidths, AreThoseOfFiles) {
  for (int32_t half_bits = -1; half_bits <= 18; ++half_bits) {
    const bool is_whole = half_bits % 2 == 0 && half_bits >= 2 && half_bits <= 16;
    const bool is_half = half_bits == 3 || half_bits == 5 || half_bits == 7;
    EXPECT_EQ(kernels::is_trellis_width(half_bits, TrellisCodebook::mul1), is_whole || is_half) << half_bits;
    EXPECT_EQ(kernels::is_trellis_width(half_bits, TrellisCodebook::mcg), is_whole) << half_bits;
    EXPECT_EQ(kernels::is_trellis_width(half_bits, TrellisCodebook::three_inst), is_whole) << half_bits;
  }
}

class TrellisLinear : public EachIsa {
 protected:
  // Compares outputs [rows, stride] from first_column on with sums in double precision.
  static void expect_product(const WeightSource& source, const std::vector<float>& input,
                             const std::vector<float>& output, size_t stride, size_t first_column);
  static void check(CpuDevice& device, Random& random, const TrellisFixture& matrix, int32_t rows);
};

void TrellisLinear::expect_product(const WeightSource& source, const std::vector<float>& input,
                                   const std::vector<float>& output, size_t stride, size_t first_column) {
  const std::vector<double> matrix = trellis_matrix(source);
  const size_t num_in = to_size(source.num_in), num_out = to_size(source.num_out);
  double largest = 0.0;  // mean square of the weights of a column
  for (size_t n = 0; n < num_out; ++n) {
    double squares = 0.0;
    for (size_t k = 0; k < num_in; ++k) squares += matrix[k * num_out + n] * matrix[k * num_out + n];
    largest = std::max(largest, squares);
  }
  for (size_t r = 0; r < input.size() / num_in; ++r) {
    double of_input = 0.0;
    for (size_t k = 0; k < num_in; ++k) of_input += double{input[r * num_in + k]} * input[r * num_in + k];
    for (size_t n = 0; n < num_out; ++n) {
      const size_t column = source.column_order != nullptr ? to_size(source.column_order[n]) : n;
      double sum = source.bias != nullptr ? source.bias[column] : 0.0;
      for (size_t k = 0; k < num_in; ++k) sum += input[r * num_in + k] * matrix[k * num_out + n];
      // Rounding errors of f32 in the rotated basis, where every weight is of the size of the largest.
      const double tolerance = 3e-6 * (std::sqrt(of_input * largest) + 1.0);
      ASSERT_NEAR(output[r * stride + first_column + n], sum, tolerance) << "row " << r << " column " << n;
    }
  }
}

void TrellisLinear::check(CpuDevice& device, Random& random, const TrellisFixture& matrix, int32_t rows) {
  SCOPED_TRACE(name_of(matrix.kind) + ", " + std::to_string(matrix.num_in) + " x " +
               std::to_string(matrix.num_out) + ", " + std::to_string(rows) + " rows");
  const WeightSource source = matrix.source();
  const CpuWeight weight(device, {source});
  const auto input = random_floats(random, to_size(matrix.num_in) * to_size(rows), -3, 3);
  const auto output = run_linear(device, weight.get(), input, rows, source.num_out);
  expect_product(source, input, output, to_size(source.num_out), 0);
}

TEST_P(TrellisLinear, EveryKindMatches) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const TrellisKind& kind : thin_if_sanitized(all_trellis_kinds(), 5))
    for (const int32_t rows : {1, 3})
      check(device, random, make_trellis(kind, 256, 128, random.next()), rows);
}

// Inputs and outputs that are no multiples of 128 are padded in the file.
TEST_P(TrellisLinear, PaddedSizesMatch) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const TrellisKind kind = {TrellisCodebook::mcg, 6};
  for (const int32_t num_in : {1, 17, 127, 130, 384})
    for (const int32_t num_out : {1, 96, 129})
      for (const int32_t rows : {1, 5})
        check(device, random, make_trellis(kind, num_in, num_out, random.next()), rows);
}

TEST_P(TrellisLinear, EveryNumberOfRowsMatches) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const int32_t rows : {1, 2, 4, 7, 8, 15, 16, 31, 32, 33, 70})
    check(device, random, make_trellis({TrellisCodebook::three_inst, 8}, 256, 256, random.next()), rows);
}

TEST_P(TrellisLinear, OrderBiasAndFactorMatch) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 5}, 256, 384, random.next());
  matrix.bias = random_floats(random, 384);
  matrix.prescale = 0.37f;
  check(device, random, matrix, 6);
  matrix.column_order = random.permutation(384);
  check(device, random, matrix, 6);
  matrix.column_order = {300, 301, 302, 5, 5, 383, 0};  // a selection that repeats one and skips a panel
  check(device, random, matrix, 1);
  matrix.column_order.clear();
  for (int32_t n = 64; n < 320; ++n) matrix.column_order.push_back(n);  // a shard's slice
  check(device, random, matrix, 2);
}

// As q, k and v: each has scales of its own, so each transforms the inputs.
TEST_P(TrellisLinear, PartsAreAdjacentInTheOutput) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const std::vector<TrellisFixture> matrices = {
      make_trellis({TrellisCodebook::mul1, 8}, 256, 128, random.next()),
      make_trellis({TrellisCodebook::mcg, 4}, 256, 96, random.next()),
      make_trellis({TrellisCodebook::three_inst, 12}, 256, 33, random.next())};
  const WeightFixture coded = make_coded({.num_in = 256, .num_out = 32});
  const WeightFixture dense = make_dense({.num_in = 256, .num_out = 24});
  std::vector<WeightSource> sources;
  for (const TrellisFixture& matrix : matrices) sources.push_back(matrix.source());
  const size_t stride = 128 + 96 + 33;
  const auto input = random_floats(random, 256 * 11);
  const CpuWeight alone(device, sources);
  const auto output = run_linear(device, alone.get(), input, 11, static_cast<int32_t>(stride));
  // Beside parts of other formats the outputs have the same bits.
  sources.push_back(coded.source());
  sources.push_back(dense.source());
  const CpuWeight mixed(device, sources);
  const size_t wide = stride + 32 + 24;
  const auto beside = run_linear(device, mixed.get(), input, 11, static_cast<int32_t>(wide));
  size_t first = 0;
  for (const TrellisFixture& matrix : matrices) {
    expect_product(matrix.source(), input, output, stride, first);
    first += to_size(matrix.num_out);
  }
  for (size_t r = 0; r < 11; ++r)
    for (size_t n = 0; n < stride; ++n) ASSERT_EQ(beside[r * wide + n], output[r * stride + n]);
  const CpuWeight others(device, {coded.source(), dense.source()});
  const auto of_others = run_linear(device, others.get(), input, 11, 56);
  for (size_t r = 0; r < 11; ++r)
    for (size_t n = 0; n < 56; ++n) ASSERT_EQ(beside[r * wide + stride + n], of_others[r * 56 + n]);
}

TEST_P(TrellisLinear, AddsToTheResidual) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const TrellisFixture matrix = make_trellis({TrellisCodebook::mcg, 8}, 128, 130, random.next());
  const CpuWeight weight(device, {matrix.source()});
  const auto input = random_floats(random, 128 * 3);
  const auto product = run_linear(device, weight.get(), input, 3, 130);
  std::vector<float> residual(3 * 130, 10.0f);
  kernels::LinearParams params;
  params.weight = weight.get();
  params.input = input.data();
  params.rows = 3;
  params.residual = residual.data();
  ASSERT_EQ(device.table().linear(device.context(), &params), Status::ok);
  for (size_t i = 0; i < residual.size(); ++i) ASSERT_EQ(residual[i], 10.0f + product[i]);
}

TEST_P(TrellisLinear, RowsDoNotDependOnBatchOrThreads) {
  Random random(fresh_seed());
  for (const TrellisKind& kind :
       {TrellisKind{TrellisCodebook::mul1, 8}, TrellisKind{TrellisCodebook::mul1, 7},
        TrellisKind{TrellisCodebook::mcg, 6}}) {
    const TrellisFixture matrix = make_trellis(kind, 500, 300, random.next());
    const auto row_of_interest = random_floats(random, 500);
    std::vector<uint32_t> expected;
    for (const int32_t threads : {1, 2, 5}) {
      CpuDevice device(GetParam(), threads);
      const CpuWeight weight(device, {matrix.source()});
      for (const int32_t rows : {1, 2, 3, 4, 8, 13, 64, 130}) {
        auto input = random_floats(random, 500 * to_size(rows), -100, 100);
        const auto place = to_size(static_cast<int32_t>(random.below(static_cast<uint32_t>(rows))));
        std::copy(row_of_interest.begin(), row_of_interest.end(),
                  input.begin() + static_cast<ptrdiff_t>(place * 500));
        const auto all = run_linear(device, weight.get(), input, rows, 300);
        const auto first = all.begin() + static_cast<ptrdiff_t>(place) * 300;
        const auto own = bits_of({first, first + 300});
        if (expected.empty()) expected = own;
        ASSERT_EQ(own, expected) << name_of(kind) << ", " << rows << " rows, " << threads << " threads";
      }
    }
  }
}

// A shard has columns of its own, and computes the whole transforms that they are part of.
TEST_P(TrellisLinear, ASliceOfTheColumnsHasTheSameBits) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 8}, 256, 320, random.next());
  const auto input = random_floats(random, 256 * 9);
  const CpuWeight whole(device, {matrix.source()});
  const auto expected = run_linear(device, whole.get(), input, 9, 320);
  for (const int32_t first : {0, 64, 192}) {
    matrix.column_order.clear();
    for (int32_t n = 0; n < 128; ++n) matrix.column_order.push_back(first + n);
    const CpuWeight slice(device, {matrix.source()});
    const auto output = run_linear(device, slice.get(), input, 9, 128);
    for (size_t r = 0; r < 9; ++r)
      for (size_t n = 0; n < 128; ++n) ASSERT_EQ(output[r * 128 + n], expected[r * 320 + to_size(first) + n]);
  }
}

TEST_P(TrellisLinear, ARowThatIsNotFiniteSpoilsItsOutputsOnly) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 4}, 256, 128, random.next());
  const CpuWeight weight(device, {matrix.source()});
  auto input = random_floats(random, 256 * 9);
  const auto expected = run_linear(device, weight.get(), input, 9, 128);
  input[4 * 256 + 17] = std::numeric_limits<float>::infinity();
  const auto output = run_linear(device, weight.get(), input, 9, 128);
  for (size_t i = 0; i < output.size(); ++i) {
    if (i / 128 == 4) {
      EXPECT_FALSE(std::isfinite(output[i]));
    } else {
      EXPECT_EQ(output[i], expected[i]);
    }
  }
}

QUIRE_FOR_EACH_ISA(TrellisLinear);

TEST(TrellisLinearAcrossIsas, GivesTheSameBits) {
  Random random(fresh_seed());
  for (const TrellisKind& kind : all_trellis_kinds()) {
    const TrellisFixture matrix = make_trellis(kind, 200, 100, random.next());
    for (const int32_t rows : {1, 13}) {
      const auto input = random_floats(random, 200 * to_size(rows));
      std::vector<uint32_t> expected;
      for (const std::string& isa : usable_isas()) {
        CpuDevice device(isa);
        const CpuWeight weight(device, {matrix.source()});
        const auto output = bits_of(run_linear(device, weight.get(), input, rows, 100));
        if (expected.empty()) expected = output;
        EXPECT_EQ(output, expected) << isa << ", " << name_of(kind);
      }
    }
  }
}

class TrellisWeight : public EachIsa {};

// With the rows of the Hadamard matrix as inputs the product has the tiles between the transforms, and a
// second transform gives the tiles themselves: the values of the codebooks to the last bit.
TEST_P(TrellisWeight, DecodesTilesBitForBit) {
  CpuDevice device(GetParam());
  for (const TrellisKind& kind : all_trellis_kinds()) {
    TrellisFixture matrix = make_trellis(kind, 128, 128, fresh_seed());
    std::fill(matrix.input_scales.begin(), matrix.input_scales.end(), uint16_t{0x3c00});
    std::fill(matrix.output_scales.begin(), matrix.output_scales.end(), uint16_t{0x3c00});
    const std::vector<float> expected = trellis_tiles(matrix.source());
    const CpuWeight weight(device, {matrix.source()});
    std::vector<float> hadamard(128 * 128);
    for (size_t i = 0; i < hadamard.size(); ++i)
      hadamard[i] = std::popcount(i / 128 & i % 128) % 2 != 0 ? -1.0f : 1.0f;
    const auto product = run_linear(device, weight.get(), hadamard, 128, 128);
    for (size_t k = 0; k < 128; ++k) {
      for (size_t n = 0; n < 128; ++n) {
        double sum = 0.0;
        for (size_t i = 0; i < 128; ++i) sum += double{product[k * 128 + i]} * hadamard[i * 128 + n];
        ASSERT_EQ(kernels::round_to_half(static_cast<float>(sum / 128)), expected[k * 128 + n])
            << name_of(kind) << " row " << k << " column " << n;
      }
    }
  }
}

TEST_P(TrellisWeight, Dequantizes) {
  CpuDevice device(GetParam());
  Random random(fresh_seed());
  for (const TrellisKind& kind : thin_if_sanitized(all_trellis_kinds(), 5)) {
    TrellisFixture matrix = make_trellis(kind, 150, 200, random.next());
    matrix.prescale = 1.5f;
    if (kind.half_bits % 4 == 0) matrix.column_order = random.permutation(200);
    const CpuWeight weight(device, {matrix.source()});
    std::vector<float> found(150 * 200);
    ASSERT_EQ(device.table().dequantize(device.handle(), weight.get(), found.data()), Status::ok);
    const std::vector<double> expected = trellis_matrix(matrix.source());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6) << name_of(kind);
  }
}

TEST_P(TrellisWeight, TakesTheBitsOfTheFile) {
  CpuDevice device(GetParam());
  for (const TrellisKind& kind : all_trellis_kinds()) {
    const TrellisFixture matrix = make_trellis(kind, 1024, 512, fresh_seed());
    const WeightSource source = matrix.source();
    const kernels::MatrixSource all = {&source, 1};
    uint64_t planned = 0;
    ASSERT_EQ(device.table().plan_weights(device.handle(), &all, 1, &planned), Status::ok);
    const CpuWeight weight(device, {source});
    EXPECT_EQ(device.table().weight_bytes(weight.get()), planned);
    EXPECT_EQ(kernels::stored_bytes(source), 1024U * 512U / 16U * to_size(kind.half_bits));
    // Beside the tiles: scales of two bytes for inputs and four for outputs, and a run for each panel.
    EXPECT_EQ(planned, kernels::stored_bytes(source) + 1024 * 2 + 512 * 4 + 4 * 12) << name_of(kind);
  }
}

TEST_P(TrellisWeight, KeepsOnlyTheTransformsOfItsColumns) {
  CpuDevice device(GetParam());
  TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 8}, 256, 1024, fresh_seed());
  for (int32_t n = 256; n < 512; ++n) matrix.column_order.push_back(n);
  const CpuWeight weight(device, {matrix.source()});
  EXPECT_LT(device.table().weight_bytes(weight.get()), 1.1 * 256 * 256 / 2);
}

TEST_P(TrellisWeight, ReadsSourcesFromAFile) {
  CpuDevice device(GetParam());
  const TrellisFixture matrix = make_trellis({TrellisCodebook::mcg, 6}, 256, 128, fresh_seed());
  const UnreadSource unread(matrix.source());
  const CpuWeight read(device, {unread.source()}), given(device, {matrix.source()});
  EXPECT_EQ(unread.num_read(), matrix.tiles.size() * sizeof(uint16_t));
  std::vector<float> of_read(256 * 128), of_given(256 * 128);
  ASSERT_EQ(device.table().dequantize(device.handle(), read.get(), of_read.data()), Status::ok);
  ASSERT_EQ(device.table().dequantize(device.handle(), given.get(), of_given.data()), Status::ok);
  EXPECT_EQ(bits_of(of_read), bits_of(of_given));
}

TEST_P(TrellisWeight, RefusesSourcesThatDoNotFit) {
  CpuDevice device(GetParam());
  const TrellisFixture matrix = make_trellis({TrellisCodebook::mul1, 5}, 128, 128, 1);
  const auto prepare = [&](const WeightSource& source) {
    kernels::Weight* weight = nullptr;
    const Status status = kernels::prepare_weight(device.table(), device.handle(), &source, 1, &weight);
    EXPECT_EQ(weight, nullptr);
    return status;
  };
  WeightSource source = matrix.source();
  source.trellis.codebook = TrellisCodebook::mcg;  // which has no half bits
  EXPECT_EQ(prepare(source), Status::invalid_argument);
  source = matrix.source();
  source.trellis.half_bits = 18;
  EXPECT_EQ(prepare(source), Status::invalid_argument);
  source = matrix.source();
  source.padded_out = 120;
  source.num_out = 120;
  EXPECT_EQ(prepare(source), Status::invalid_argument);
  std::vector<int32_t> order(128);
  source = matrix.source();
  source.row_order = order.data();
  EXPECT_EQ(prepare(source), Status::invalid_argument);
}

QUIRE_FOR_EACH_ISA(TrellisWeight);

}  // namespace
}  // namespace quire::testing
