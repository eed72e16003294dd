// Hyper-connections compared with double precision.
#include <gtest/gtest.h>

#include "tests/kernels/cpu/cpu_device.h"
#include "tests/support/connection_reference.h"

namespace quire::testing {
namespace {

using kernels::CollapseStreamsParams;
using kernels::ConnectionSpec;
using kernels::ExpandStreamsParams;
using kernels::Status;

class StreamsTest : public ::testing::Test {
 protected:
  static constexpr size_t kStreams = 4, kColumns = 37, kTokens = 3;
  static constexpr size_t kProducts = (2 + kStreams) * kStreams, kCoefficients = (1 + kStreams) * kStreams;

  static ConnectionSpec spec_of(int32_t iterations) {
    ConnectionSpec spec;
    spec.num_streams = kStreams;
    spec.columns = kColumns;
    spec.iterations = iterations;
    spec.epsilon = 1e-3f;
    return spec;
  }

  void collapse(int32_t iterations) {
    CollapseStreamsParams p;
    static_cast<ConnectionSpec&>(p) = spec_of(iterations);
    p.products = products_.data();
    p.scale = scale_.data();
    p.base = base_.data();
    p.streams = streams_.data();
    p.coefficients = coefficients_.data();
    p.x = x_.data();
    p.tokens = kTokens;
    ASSERT_EQ(device_.table().collapse_streams(device_.context(), &p), Status::ok);
  }

  ConnectionReference reference(size_t token, int32_t iterations) const {
    return connection_reference(spec_of(iterations), products_.data() + token * kProducts, scale_.data(),
                                base_.data());
  }

  Random random_ = Random(fresh_seed());
  CpuDevice device_ = CpuDevice("scalar");
  std::vector<float> products_ = random_floats(random_, kTokens* kProducts, -2.0f, 2.0f);
  std::vector<float> base_ = random_floats(random_, kProducts);
  std::vector<float> scale_ = random_floats(random_, 3);
  std::vector<float> streams_ = random_floats(random_, kTokens* kStreams* kColumns);
  std::vector<float> coefficients_ = std::vector<float>(kTokens * kCoefficients);
  std::vector<float> x_ = std::vector<float>(kTokens * kColumns);
};

TEST_F(StreamsTest, SumAndCoefficientsEqualDoublePrecision) {
  for (const int32_t iterations : {1, 2, 20}) {
    collapse(iterations);
    for (size_t t = 0; t < kTokens; ++t) {
      const ConnectionReference expected = reference(t, iterations);
      const float* const own = coefficients_.data() + t * kCoefficients;
      for (size_t i = 0; i < kStreams; ++i) EXPECT_NEAR(double{own[i]}, expected.post[i], 1e-6);
      for (size_t i = 0; i < kStreams * kStreams; ++i)
        EXPECT_NEAR(double{own[kStreams + i]}, expected.mixing[i], 2e-6) << iterations;
      for (size_t column = 0; column < kColumns; ++column) {
        double sum = 0.0;
        for (size_t i = 0; i < kStreams; ++i)
          sum += expected.pre[i] * double{streams_[(t * kStreams + i) * kColumns + column]};
        EXPECT_NEAR(double{x_[t * kColumns + column]}, sum, 2e-6);
      }
    }
  }
}

// Stream j becomes post[j] f plus the sum over i of C[i, j] X[i].
TEST_F(StreamsTest, ResultIsAddedToTheMixedStreams) {
  collapse(2);
  const std::vector<float> result = random_floats(random_, kTokens * kColumns), before = streams_;
  ExpandStreamsParams p;
  static_cast<ConnectionSpec&>(p) = spec_of(2);
  p.coefficients = coefficients_.data();
  p.result = result.data();
  p.streams = streams_.data();
  p.tokens = kTokens;
  ASSERT_EQ(device_.table().expand_streams(device_.context(), &p), Status::ok);
  for (size_t t = 0; t < kTokens; ++t) {
    const ConnectionReference expected = reference(t, 2);
    for (size_t j = 0; j < kStreams; ++j) {
      for (size_t column = 0; column < kColumns; ++column) {
        double sum = expected.post[j] * double{result[t * kColumns + column]};
        for (size_t i = 0; i < kStreams; ++i)
          sum += expected.mixing[i * kStreams + j] * double{before[(t * kStreams + i) * kColumns + column]};
        EXPECT_NEAR(double{streams_[(t * kStreams + j) * kColumns + column]}, sum, 4e-6);
      }
    }
  }
}

TEST_F(StreamsTest, MoreStreamsThanFitAreRefused) {
  CollapseStreamsParams p;
  p.num_streams = kernels::kMostConnectedStreams + 1;
  EXPECT_EQ(device_.table().collapse_streams(device_.context(), &p), Status::invalid_argument);
  ExpandStreamsParams q;
  EXPECT_EQ(device_.table().expand_streams(device_.context(), &q), Status::invalid_argument);
}

}  // namespace
}  // namespace quire::testing
