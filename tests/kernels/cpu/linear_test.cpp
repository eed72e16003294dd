// Compares dense products with sums in double precision.
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/interface/composite.h"
#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/dequantize_reference.h"

namespace quire::testing {
namespace {

using kernels::DType;
using kernels::Status;

class DenseLinear : public EachIsa {};

struct Shape {
  int32_t num_in;
  int32_t num_out;
  int32_t rows;
};

void expect_product(const WeightFixture& fixture, const std::vector<float>& input, int32_t rows,
                    const std::vector<float>& output) {
  const std::vector<float> matrix = dequantize_reference(fixture.source());
  const std::vector<float> bias = bias_reference(fixture.source());
  const auto num_in = static_cast<size_t>(fixture.num_in);
  const auto num_out = static_cast<size_t>(fixture.num_out);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    for (size_t n = 0; n < num_out; ++n) {
      double sum = bias[n];
      double magnitude = std::abs(sum);
      for (size_t k = 0; k < num_in; ++k) {
        const double term =
            static_cast<double>(input[r * num_in + k]) * static_cast<double>(matrix[k * num_out + n]);
        sum += term;
        magnitude += std::abs(term);
      }
      // Error bound of a sum of K rounded products.
      const double tolerance = static_cast<double>(num_in + 4) * 0x1p-24 * magnitude;
      ASSERT_NEAR(output[r * num_out + n], sum, tolerance) << "row " << r << " column " << n;
    }
  }
}

// As the columns of a shard in wider rows.
TEST_P(DenseLinear, AddsToColumnsOfWiderRows) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  constexpr int32_t kIn = 64, kOut = 70, kRows = 5;
  constexpr size_t kWide = 200, kFirst = 33;
  DenseOptions options;
  options.seed = random.next();
  options.num_in = kIn;
  options.num_out = kOut;
  const WeightFixture fixture = make_dense(options);
  const CpuWeight weight(device, {fixture.source()});
  const auto input = random_floats(random, size_t{kRows} * kIn);
  const std::vector<float> product = run_linear(device, weight.get(), input, kRows, kOut);
  std::vector<float> wide = random_floats(random, kRows * kWide), expected = wide;
  for (size_t i = 0; i < product.size(); ++i) {
    float& sum = expected[i / kOut * kWide + kFirst + i % kOut];
    sum += product[i];
  }
  kernels::LinearParams params = kernels::product_of(weight.get(), input.data(), kRows);
  params.residual = wide.data() + kFirst;
  params.output_stride = kWide;
  ASSERT_EQ(device.table().linear(device.context(), &params), Status::ok);
  EXPECT_EQ(bits_of(wide), bits_of(expected));
}

TEST_P(DenseLinear, EqualsTheSumsInDoublePrecision) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f8_e4m3}) {
    for (const Shape shape : {Shape{1, 1, 1}, {37, 70, 1}, {64, 130, 3}, {100, 16, 13}, {33, 200, 45}}) {
      DenseOptions options;
      options.seed = random.next();
      options.num_in = shape.num_in;
      options.num_out = shape.num_out;
      options.dtype = dtype;
      options.scale_out = random.below(2) == 0 ? 1 : 24;
      options.scale_in = random.below(2) == 0 ? 0 : 32;
      options.bias = true;
      options.permute_columns = true;
      options.prescale = 0.75f;
      const WeightFixture fixture = make_dense(options);
      const CpuWeight weight(device, {fixture.source()});
      const auto input =
          random_floats(random, static_cast<size_t>(shape.num_in) * static_cast<size_t>(shape.rows));
      expect_product(fixture, input, shape.rows,
                     run_linear(device, weight.get(), input, shape.rows, shape.num_out));
    }
  }
}

// A weight of 8 bits times its scale is rounded once, to f32: the product has the same bits as with f32
// weights.
TEST_P(DenseLinear, EightBitFloatsEqualTheirWeightsInF32) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const auto& [scale_out, scale_in] : {std::pair{0, 0}, {1, 0}, {16, 32}, {7, 33}, {1, 1}}) {
    DenseOptions options;
    options.seed = random.next();
    options.num_in = 100;
    options.num_out = 77;
    options.dtype = DType::f8_e4m3;
    options.scale_out = scale_out;
    options.scale_in = scale_in;
    options.permute_columns = true;
    const WeightFixture fixture = make_dense(options);
    WeightFixture wide = fixture;
    wide.dense_dtype = DType::f32;
    wide.column_order.clear();
    const std::vector<float> matrix = dequantize_reference(fixture.source());  // columns in the order of the
                                                                               // outputs
    for (size_t n = 0; n < 77; ++n)
      for (size_t k = 0; k < 100; ++k) wide.dense_float.push_back(matrix[k * 77 + n]);
    const CpuWeight narrow_weight(device, {fixture.source()});
    const CpuWeight wide_weight(device, {wide.source()});
    for (const int32_t rows : {1, 2, 5, 16, 40}) {
      const auto input = random_floats(random, static_cast<size_t>(rows) * 100);
      EXPECT_EQ(bits_of(run_linear(device, narrow_weight.get(), input, rows, 77)),
                bits_of(run_linear(device, wide_weight.get(), input, rows, 77)))
          << rows << " rows, scales of " << scale_out << " x " << scale_in;
    }
  }
}

TEST_P(DenseLinear, DoesNotDependOnRowsOrThreads) {
  Random random(fresh_seed());
  DenseOptions options;
  options.seed = random.next();
  options.num_in = 150;
  options.num_out = 77;
  const WeightFixture fixture = make_dense(options);
  const int32_t rows = 45;
  const auto input = random_floats(random, static_cast<size_t>(rows) * 150);
  std::vector<uint32_t> expected;
  for (const int32_t threads : {1, 3}) {
    CpuDevice device(GetParam(), threads);
    const CpuWeight weight(device, {fixture.source()});
    const auto together = bits_of(run_linear(device, weight.get(), input, rows, 77));
    if (expected.empty()) expected = together;
    EXPECT_EQ(together, expected);
    for (const int32_t r : {0, 7, 44}) {
      const std::vector<float> one(input.begin() + r * 150, input.begin() + (r + 1) * 150);
      const auto alone = bits_of(run_linear(device, weight.get(), one, 1, 77));
      EXPECT_EQ(alone, std::vector<uint32_t>(expected.begin() + r * 77, expected.begin() + (r + 1) * 77));
    }
  }
}

TEST(DenseLinearAcrossIsas, GivesTheSameBits) {
  Random random(fresh_seed());
  DenseOptions options;
  options.seed = random.next();
  options.num_in = 90;
  options.num_out = 51;
  options.bias = true;
  const WeightFixture fixture = make_dense(options);
  const auto input = random_floats(random, 5 * 90);
  std::vector<uint32_t> expected;
  for (const std::string& isa : usable_isas()) {
    CpuDevice device(isa);
    const CpuWeight weight(device, {fixture.source()});
    const auto output = bits_of(run_linear(device, weight.get(), input, 5, 51));
    if (expected.empty()) expected = output;
    EXPECT_EQ(output, expected) << isa;
  }
}

QUIRE_FOR_EACH_ISA(DenseLinear);

}  // namespace
}  // namespace quire::testing
