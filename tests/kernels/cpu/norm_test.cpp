// Compares norms and rotary angles with double precision.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::NormKind;
using kernels::NormParams;
using kernels::Status;

class NormTest : public EachIsa {};

double reference(const NormParams& params, const float* row, size_t c) {
  const auto columns = static_cast<size_t>(params.columns);
  double mean = 0.0;
  for (size_t i = 0; i < columns; ++i) mean += row[i];
  mean = params.kind == NormKind::layer ? mean / static_cast<double>(columns) : 0.0;
  double squares = 0.0;
  for (size_t i = 0; i < columns; ++i) squares += (row[i] - mean) * (row[i] - mean);
  const double factor =
      1.0 / std::sqrt(squares / static_cast<double>(columns) + static_cast<double>(params.epsilon));
  const double bias = params.bias != nullptr ? params.bias[c] : 0.0;
  return (row[c] - mean) * factor * static_cast<double>(params.weight[c]) + bias;
}

TEST_P(NormTest, EqualsDoublePrecision) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    for (const int32_t columns : {1, 15, 16, 47, 384, 1000}) {
      const int32_t rows = 7;
      const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
      const auto input = random_floats(random, count, -4, 6);
      const auto weight = random_floats(random, static_cast<size_t>(columns));
      const auto bias = random_floats(random, static_cast<size_t>(columns));
      std::vector<float> output(count);
      const std::vector<int32_t> order = {6, 0, 3, 3, 1, 5, 2};
      NormParams params;
      params.kind = kind;
      params.weight = weight.data();
      params.bias = kind == NormKind::layer ? bias.data() : nullptr;
      params.input = input.data();
      params.row_index = order.data();
      params.rows = rows;
      params.columns = columns;
      params.output = output.data();
      ASSERT_EQ(device.table().norm(device.context(), &params), Status::ok);
      for (size_t i = 0; i < count; ++i) {
        const size_t row = static_cast<size_t>(order[i / static_cast<size_t>(columns)]);
        const double expected = reference(params, input.data() + row * static_cast<size_t>(columns),
                                          i % static_cast<size_t>(columns));
        EXPECT_NEAR(output[i], expected, 4e-6 * (1.0 + std::abs(expected))) << columns;
      }
    }
  }
}

TEST_P(NormTest, AddsToTheResidual) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const auto input = random_floats(random, 3 * 50);
  const auto weight = random_floats(random, 50);
  std::vector<float> output(150);
  NormParams params;
  params.weight = weight.data();
  params.input = input.data();
  params.rows = 3;
  params.columns = 50;
  params.output = output.data();
  ASSERT_EQ(device.table().norm(device.context(), &params), Status::ok);
  const auto before = random_floats(random, 150);
  std::vector<float> residual = before;
  params.output = nullptr;
  params.residual = residual.data();
  ASSERT_EQ(device.table().norm(device.context(), &params), Status::ok);
  for (size_t i = 0; i < 150; ++i) EXPECT_EQ(residual[i], before[i] + output[i]);
}

TEST_P(NormTest, RotaryAnglesAreThoseOfSinglePrecision) {
  CpuDevice device(GetParam());
  const std::vector<float> inv_freq = {1.0f, 0.31622776f, 0.01f, 1e-4f, 0.77f};
  const std::vector<int32_t> positions = {0, 1, 17, 4095, 131071};
  std::vector<float> cosines(25);
  std::vector<float> sines(25);
  kernels::RopeAnglesParams params;
  params.inv_freq = inv_freq.data();
  params.rotary_dim = 10;
  params.magnitude = 1.25f;
  params.positions = positions.data();
  params.num_tokens = 5;
  params.cos = cosines.data();
  params.sin = sines.data();
  ASSERT_EQ(device.table().rope_angles(device.context(), &params), Status::ok);
  for (size_t t = 0; t < 5; ++t) {
    for (size_t i = 0; i < 5; ++i) {
      const float angle = static_cast<float>(positions[t]) * inv_freq[i];
      EXPECT_NEAR(cosines[t * 5 + i], 1.25 * std::cos(static_cast<double>(angle)), 2e-7);
      EXPECT_NEAR(sines[t * 5 + i], 1.25 * std::sin(static_cast<double>(angle)), 2e-7);
    }
  }
}

QUIRE_FOR_EACH_ISA(NormTest);

}  // namespace
}  // namespace quire::testing
