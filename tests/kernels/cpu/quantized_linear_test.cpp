// Quantized products: accuracy compared with sums in double precision, and equal bits whatever the other rows
// are.
#include <cmath>
#include <limits>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/dequantize_reference.h"

namespace quire::testing {
namespace {

using kernels::ActivationDtype;
using kernels::Status;
using kernels::WeightSource;

// Parameters: an instruction set and the format of activations.
class QuantizedLinear : public ::testing::TestWithParam<std::tuple<std::string, ActivationDtype>> {
 protected:
  static const std::string& isa() { return std::get<0>(GetParam()); }
  static ActivationDtype activations() { return std::get<1>(GetParam()); }
  static WeightSource source(const WeightFixture& fixture) {
    WeightSource source = fixture.source();
    source.activations = activations();
    return source;
  }
  // Returns the largest error of an activation relative to the amax of its span: half a quantization step.
  static double largest_error() { return activations() == ActivationDtype::i8 ? 1.0 / 254.0 : 1.0 / 65278.0; }
  static void check_one(CpuDevice& device, Random& random, const WeightFixture& fixture, int32_t rows);
};

// Activations are integers with a scale for some rows of the weight. The row order can bring any features
// together in a span, so the largest activation of the row bounds all errors.
void expect_product(const WeightFixture& fixture, const std::vector<float>& input, int32_t rows,
                    const std::vector<float>& output, size_t stride, size_t first_column,
                    double largest_error) {
  const std::vector<float> matrix = dequantize_reference(fixture.source());
  const std::vector<float> bias = bias_reference(fixture.source());
  const auto num_in = static_cast<size_t>(fixture.num_in);
  const auto num_out = static_cast<size_t>(fixture.num_out);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    double amax = 0.0;
    for (size_t k = 0; k < num_in; ++k)
      amax = std::max(amax, std::abs(static_cast<double>(input[r * num_in + k])));
    for (size_t n = 0; n < num_out; ++n) {
      double sum = bias[n];
      double magnitude = std::abs(sum);
      double weights = 0.0;
      for (size_t k = 0; k < num_in; ++k) {
        const auto w = static_cast<double>(matrix[k * num_out + n]);
        const double term = static_cast<double>(input[r * num_in + k]) * w;
        sum += term;
        magnitude += std::abs(term);
        weights += std::abs(w);
      }
      const double tolerance = weights * amax * largest_error + 4e-6 * magnitude;
      ASSERT_NEAR(output[r * stride + first_column + n], sum, tolerance) << "row " << r << " column " << n;
    }
  }
}

void QuantizedLinear::check_one(CpuDevice& device, Random& random, const WeightFixture& fixture,
                                int32_t rows) {
  const CpuWeight weight(device, {source(fixture)});
  const auto input =
      random_floats(random, static_cast<size_t>(fixture.num_in) * static_cast<size_t>(rows), -3, 3);
  const auto output = run_linear(device, weight.get(), input, rows, fixture.num_out);
  expect_product(fixture, input, rows, output, static_cast<size_t>(fixture.num_out), 0, largest_error());
}

TEST_P(QuantizedLinear, Exl2MatchesForEveryWidth) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const int32_t bits : {2, 3, 4, 5, 6, 8}) {
    for (const int32_t rows : {1, 2, 7, 16}) {
      Exl2Options options;
      options.seed = random.next();
      options.num_out = 45;
      options.groups = mixed_groups({bits}, 160, 64);
      options.bias = rows % 2 == 1;
      check_one(device, random, make_exl2(options), rows);
    }
  }
}

TEST_P(QuantizedLinear, Exl2MatchesWithAllWidthsInOneMatrix) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const int32_t rows : {1, 5, 150}) {
    Exl2Options options;
    options.seed = random.next();
    options.num_out = 70;
    options.groups = mixed_groups({8, 6, 5, 4, 3, 2}, 32 * 12, 32);
    options.groups.push_back({2, 16});
    options.permute_columns = true;
    options.bias = true;
    options.prescale = 0.3f;
    check_one(device, random, make_exl2(options), rows);
  }
}

TEST_P(QuantizedLinear, GptqMatchesWithAndWithoutActOrder) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const int32_t group_size : {32, 48, 8}) {
    for (const bool act_order : {false, true}) {
      for (const int32_t rows : {1, 9}) {
        CodedOptions options;
        options.seed = random.next();
        options.num_in = 136;
        options.num_out = 43;
        options.group_size = group_size;
        options.act_order = act_order;
        options.zero_offset = rows % 2;
        options.permute_columns = true;
        options.bias = act_order;
        options.prescale = act_order ? 1.0f : 1.25f;
        check_one(device, random, make_coded(options), rows);
      }
    }
  }
}

TEST_P(QuantizedLinear, CodesOfEveryVarietyMatch) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  for (const int32_t rows : {1, 2, 7, 33}) {
    for (const CodedOptions& options : coded_varieties(random.next())) {
      SCOPED_TRACE(::testing::Message() << options.bits << " bits, groups of " << options.group_size);
      check_one(device, random, make_coded(options), rows);
    }
  }
}

// q, k, v with a shared row order and a part with its own; one of them dense.
TEST_P(QuantizedLinear, PartsAreAdjacentInTheOutput) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  std::vector<WeightFixture> fixtures;
  for (const int32_t num_out : {40, 24, 17}) {
    Exl2Options options;
    options.seed = random.next();
    options.num_out = num_out;
    options.groups = mixed_groups({6, 4}, 96, 32);
    fixtures.push_back(make_exl2(options));
  }
  fixtures[1].row_order = fixtures[0].row_order;
  DenseOptions dense;
  dense.seed = random.next();
  dense.num_in = 96;
  dense.num_out = 21;
  fixtures.push_back(make_dense(dense));
  std::vector<WeightSource> sources;
  for (const WeightFixture& fixture : fixtures) sources.push_back(source(fixture));
  const CpuWeight weight(device, sources);
  const int32_t rows = 11;
  const auto input = random_floats(random, 96 * static_cast<size_t>(rows));
  const size_t stride = 40 + 24 + 17 + 21;
  const auto output = run_linear(device, weight.get(), input, rows, static_cast<int32_t>(stride));
  size_t first = 0;
  for (const WeightFixture& fixture : fixtures) {
    expect_product(fixture, input, rows, output, stride, first, largest_error());
    first += static_cast<size_t>(fixture.num_out);
  }
}

WeightFixture mixed_fixture(uint64_t seed) {
  Exl2Options options;
  options.seed = seed;
  options.num_out = 83;
  options.groups = mixed_groups({8, 6, 5, 4, 3, 2}, 32 * 10, 64);
  options.bias = true;
  return make_exl2(options);
}

TEST_P(QuantizedLinear, RowsDoNotDependOnBatchOrThreads) {
  Random random(fresh_seed());
  const WeightFixture fixture = mixed_fixture(random.next());
  const auto num_in = static_cast<size_t>(fixture.num_in);
  const auto row_of_interest = random_floats(random, num_in);
  std::vector<uint32_t> expected;
  for (const int32_t threads : {1, 2, 5}) {
    CpuDevice device(isa(), threads);
    const CpuWeight weight(device, {source(fixture)});
    for (const int32_t rows : {1, 2, 3, 4, 8, 13, 64, 130, 300}) {
      auto input = random_floats(random, num_in * static_cast<size_t>(rows), -100, 100);
      const auto place = static_cast<size_t>(random.below(static_cast<uint32_t>(rows)));
      std::copy(row_of_interest.begin(), row_of_interest.end(),
                input.begin() + static_cast<ptrdiff_t>(place * num_in));
      const auto all = run_linear(device, weight.get(), input, rows, fixture.num_out);
      const auto first = all.begin() + static_cast<ptrdiff_t>(place) * fixture.num_out;
      const auto own = bits_of({first, first + fixture.num_out});
      if (expected.empty()) expected = own;
      ASSERT_EQ(own, expected) << rows << " rows, row " << place << ", " << threads << " threads";
    }
  }
}

TEST_P(QuantizedLinear, AddsToTheResidual) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  const WeightFixture fixture = mixed_fixture(random.next());
  const CpuWeight weight(device, {source(fixture)});
  const int32_t rows = 3;
  const auto input = random_floats(random, static_cast<size_t>(fixture.num_in) * 3);
  const auto product = run_linear(device, weight.get(), input, rows, fixture.num_out);
  const auto before = random_floats(random, product.size());
  std::vector<float> residual = before;
  kernels::LinearParams params;
  params.weight = weight.get();
  params.input = input.data();
  params.rows = rows;
  params.residual = residual.data();
  ASSERT_EQ(device.table().linear(device.context(), &params), Status::ok);
  for (size_t i = 0; i < residual.size(); ++i) EXPECT_EQ(residual[i], before[i] + product[i]);
}

TEST_P(QuantizedLinear, ANonFiniteRowDoesNotAffectOtherRows) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  const WeightFixture fixture = mixed_fixture(random.next());
  const CpuWeight weight(device, {source(fixture)});
  const auto num_in = static_cast<size_t>(fixture.num_in);
  const auto num_out = static_cast<size_t>(fixture.num_out);
  const auto sound = random_floats(random, num_in * 9);
  const auto expected = run_linear(device, weight.get(), sound, 9, fixture.num_out);
  for (const float fault :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto input = sound;
    input[4 * num_in + 17] = fault;
    const auto output = run_linear(device, weight.get(), input, 9, fixture.num_out);
    for (size_t r = 0; r < 9; ++r) {
      for (size_t n = 0; n < num_out; ++n) {
        if (r == 4) {
          EXPECT_TRUE(std::isnan(output[r * num_out + n]));
        } else {
          EXPECT_EQ(output[r * num_out + n], expected[r * num_out + n]);
        }
      }
    }
  }
}

TEST_P(QuantizedLinear, SupportsActivationsOfAnyMagnitude) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  const WeightFixture fixture = mixed_fixture(random.next());
  const CpuWeight weight(device, {source(fixture)});
  const std::vector<float> bias = bias_reference(fixture.source());
  for (const float size : {0.0f, 1e-42f, 1e-33f}) {
    const auto input = random_floats(random, static_cast<size_t>(fixture.num_in), -size, size);
    const auto output = run_linear(device, weight.get(), input, 1, fixture.num_out);
    for (size_t n = 0; n < output.size(); ++n) EXPECT_FLOAT_EQ(output[n], bias[n]);
  }
  const auto large = random_floats(random, static_cast<size_t>(fixture.num_in), -1e30f, 1e30f);
  expect_product(fixture, large, 1, run_linear(device, weight.get(), large, 1, fixture.num_out),
                 static_cast<size_t>(fixture.num_out), 0, largest_error());
}

// If every activation is 0 or as large as the largest, integers of any size represent it exactly.
TEST_P(QuantizedLinear, ExactlyRepresentableActivationsAreExact) {
  Random random(fresh_seed());
  CpuDevice device(isa());
  const WeightFixture fixture = mixed_fixture(random.next());
  const CpuWeight weight(device, {source(fixture)});
  const int32_t rows = 13;
  std::vector<float> input(static_cast<size_t>(fixture.num_in) * rows);
  for (float& x : input) x = 0.75f * static_cast<float>(static_cast<int32_t>(random.below(3)) - 1);
  const auto output = run_linear(device, weight.get(), input, rows, fixture.num_out);
  expect_product(fixture, input, rows, output, static_cast<size_t>(fixture.num_out), 0, 0.0);
}

// Groups of one row each need 32 times the rows, and still every context has memory for one row at a time.
TEST_P(QuantizedLinear, PaddingOfTinyGroupsFitsTheContext) {
  Random random(fresh_seed());
  kernels::ContextLimits limits = CpuDevice::small_limits();
  limits.max_tokens = 8;
  limits.max_logit_rows = 8;
  limits.max_columns = 64;
  CpuDevice device(isa(), 2, limits);
  CodedOptions options;
  options.seed = random.next();
  options.num_in = 64;
  options.num_out = 16;
  options.group_size = 1;
  options.act_order = true;
  check_one(device, random, make_coded(options), 5);
}

TEST_P(QuantizedLinear, RefusesAMatrixLargerThanTheContext) {
  CpuDevice device(isa());
  CodedOptions options;
  options.num_in = 2048;
  options.group_size = 1;
  const WeightFixture fixture = make_coded(options);
  const CpuWeight weight(device, {source(fixture)});
  std::vector<float> input(2048);
  std::vector<float> output(32);
  kernels::LinearParams params;
  params.weight = weight.get();
  params.input = input.data();
  params.rows = 1;
  params.output = output.data();
  kernels::ContextLimits limits = CpuDevice::small_limits();
  limits.max_tokens = 1;
  limits.max_logit_rows = 1;
  kernels::Context* small = nullptr;
  ASSERT_EQ(device.table().create_context(device.handle(), &limits, &small), Status::ok);
  EXPECT_EQ(device.table().linear(small, &params), Status::invalid_argument);
  device.table().release_context(small);
}

TEST(QuantizedLinearAcrossIsas, GivesTheSameBits) {
  Random random(fresh_seed());
  CodedOptions gptq;
  gptq.seed = random.next();
  gptq.num_in = 320;
  gptq.num_out = 50;
  gptq.group_size = 40;
  gptq.act_order = true;
  std::vector<WeightFixture> fixtures = {mixed_fixture(random.next()), make_coded(gptq)};
  for (const CodedOptions& options : coded_varieties(random.next())) fixtures.push_back(make_coded(options));
  for (const WeightFixture& fixture : fixtures) {
    const auto input = random_floats(random, 13 * static_cast<size_t>(fixture.num_in));
    for (const ActivationDtype activations : {ActivationDtype::full, ActivationDtype::i8}) {
      std::vector<uint32_t> expected;
      WeightSource source = fixture.source();
      source.activations = activations;
      for (const std::string& isa : usable_isas()) {
        CpuDevice device(isa);
        const CpuWeight weight(device, {source});
        const auto output = bits_of(run_linear(device, weight.get(), input, 13, fixture.num_out));
        if (expected.empty()) expected = output;
        EXPECT_EQ(output, expected) << isa;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, QuantizedLinear,
                         ::testing::Combine(::testing::ValuesIn(usable_isas()),
                                            ::testing::Values(ActivationDtype::full, ActivationDtype::i8)),
                         [](const auto& test) {
                           return std::get<0>(test.param) +
                                  (std::get<1>(test.param) == ActivationDtype::i8 ? "_i8" : "");
                         });

}  // namespace
}  // namespace quire::testing
