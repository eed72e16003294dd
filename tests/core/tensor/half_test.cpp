#include "kernels/interface/half.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tensor/dtype.h"

namespace quire {
namespace {

using kernels::float_to_half;
using kernels::half_to_float;

TEST(Half, EveryPatternSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
}

// Sign, four bits of exponent with a bias of 7, three of mantissa.
TEST(Half, EveryE4m3CodeHasTheValueOfItsBits) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    const int mantissa = code & 7;
    const float value = kernels::e4m3_to_float(static_cast<uint8_t>(code));
    if (exponent == 15 && mantissa == 7) {
      EXPECT_TRUE(std::isnan(value) && kernels::is_e4m3_nan(static_cast<uint8_t>(code))) << code;
      continue;
    }
    EXPECT_FALSE(kernels::is_e4m3_nan(static_cast<uint8_t>(code))) << code;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa / 8.0, -6) : std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
    EXPECT_EQ(static_cast<double>(value), code < 128 ? magnitude : -magnitude) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
  }
  EXPECT_EQ(kernels::e4m3_to_float(0x7e), 448.0f);
}

// The nearer of two neighbours is chosen, and the even one at the midpoint.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    const float a = half_to_float(low);
    const float b = half_to_float(high);
    const float middle = (a + b) / 2;  // exact: it needs one bit more than half has
    ASSERT_EQ(float_to_half(middle), (bits & 1U) ? high : low) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, b)), high) << bits;
    ASSERT_EQ(float_to_half(-middle), static_cast<uint16_t>(0x8000U | ((bits & 1U) ? high : low)));
  }
}

TEST(Half, OverflowIsInfinity) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(INFINITY), 0x7c00);
  EXPECT_EQ(float_to_half(-1e30f), 0xfc00);
}

TEST(Tensor, ReadsEveryFloatTypeAndRefusesTheOthers) {
  const uint16_t brain = 0x3fc0;  // 1.5
  TensorView view;
  view.dtype = DType::bf16;
  view.shape = {1};
  view.bytes = gsl::as_bytes(gsl::span<const uint16_t>(&brain, 1));
  EXPECT_EQ(to_floats(view, "t"), std::vector<float>{1.5f});
  view.dtype = DType::i16;
  EXPECT_THROW((void)to_floats(view, "t"), Error);
}

}  // namespace
}  // namespace quire
