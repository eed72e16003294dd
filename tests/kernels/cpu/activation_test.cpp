// Compares activations and logit scaling with double precision.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::Activation;
using kernels::Status;

class ActivationTest : public EachIsa {};

double reference(Activation kind, double x) {
  switch (kind) {
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x * 0.7071067811865476);
    case Activation::relu:
      return x > 0.0 ? x : 0.0;
    case Activation::relu_squared:
      return x > 0.0 ? x * x : 0.0;
    case Activation::gelu_quick:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::xielu:
    case Activation::clamped_swish:
      break;  // have parameters of their own; the models of tests/golden test them
  }
  return 0.0;
}

std::vector<float> run(CpuDevice& device, Activation kind, const std::vector<float>& input, int32_t rows,
                       bool gated) {
  const size_t columns = input.size() / static_cast<size_t>(rows) / (gated ? 2 : 1);
  std::vector<float> output(static_cast<size_t>(rows) * columns);
  kernels::ActivationParams params;
  params.activation = kind;
  params.gated = gated;
  params.input = input.data();
  params.rows = rows;
  params.intermediate = static_cast<int32_t>(columns);
  params.output = output.data();
  EXPECT_EQ(device.table().activation(device.context(), &params), Status::ok);
  return output;
}

constexpr Activation kKinds[] = {Activation::silu, Activation::gelu_tanh,    Activation::gelu_erf,
                                 Activation::relu, Activation::relu_squared, Activation::gelu_quick};

TEST_P(ActivationTest, IsAccurateOverTheWholeRange) {
  CpuDevice device(GetParam());
  std::vector<float> input;
  for (float x = -20.0f; x <= 20.0f; x += 0.0137f) input.push_back(x);
  for (const float x : {-1e-6f, 1e-6f, 0.0f, 60.0f, -60.0f, -100.0f, 1e4f, -1e4f}) input.push_back(x);
  for (const Activation kind : kKinds) {
    const auto output = run(device, kind, input, 1, false);
    for (size_t i = 0; i < input.size(); ++i) {
      const double expected = reference(kind, static_cast<double>(input[i]));
      // Relative in the main range, absolute in the far tail, where the argument of the exponential is
      // rounded.
      const double tolerance = 1e-6 * std::abs(expected) + 1e-9;
      ASSERT_NEAR(output[i], expected, tolerance) << "kind " << static_cast<int>(kind) << " at " << input[i];
    }
  }
}

TEST_P(ActivationTest, GatesRowByRow) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  const size_t columns = 83;
  const size_t rows = 5;
  const auto input = random_floats(random, rows * 2 * columns, -3, 3);
  for (const Activation kind : kKinds) {
    const auto output = run(device, kind, input, static_cast<int32_t>(rows), true);
    const double tolerance = kind == Activation::relu_squared ? 4e-6 : 2e-6;  // its results are up to 27,
                                                                              // those of the others up to 9
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        const double gate = input[r * 2 * columns + c];
        const double up = input[r * 2 * columns + columns + c];
        EXPECT_NEAR(output[r * columns + c], reference(kind, gate) * up, tolerance);
      }
    }
  }
}

TEST_P(ActivationTest, KeepsNaN) {
  CpuDevice device(GetParam());
  const std::vector<float> input = {std::numeric_limits<float>::quiet_NaN(), 1.0f};
  for (const Activation kind : kKinds) {
    const auto output = run(device, kind, input, 1, false);
    EXPECT_TRUE(std::isnan(output[0]));
    EXPECT_FALSE(std::isnan(output[1]));
  }
}

TEST_P(ActivationTest, ScalesAndCapsLogits) {
  Random random(fresh_seed());
  CpuDevice device(GetParam());
  for (const float cap : {0.0f, 30.0f}) {
    const auto before = random_floats(random, 10007, -200, 200);
    auto logits = before;
    ASSERT_EQ(device.table().scale_logits(device.context(), logits.data(), 10007, 0.25f, cap), Status::ok);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double scaled = 0.25 * static_cast<double>(before[i]);
      const double expected = cap == 0.0f ? scaled : 30.0 * std::tanh(scaled / 30.0);
      EXPECT_NEAR(logits[i], expected, 4e-7 * std::abs(expected));
    }
  }
}

TEST(ActivationAcrossIsas, GivesTheSameBits) {
  Random random(fresh_seed());
  const auto input = random_floats(random, 2000, -12, 12);
  for (const Activation kind : kKinds) {
    std::vector<uint32_t> expected;
    for (const std::string& isa : usable_isas()) {
      CpuDevice device(isa);
      const auto output = bits_of(run(device, kind, input, 4, true));
      if (expected.empty()) expected = output;
      EXPECT_EQ(output, expected) << isa;
    }
  }
}

QUIRE_FOR_EACH_ISA(ActivationTest);

}  // namespace
}  // namespace quire::testing
