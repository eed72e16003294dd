#include "core/base/checked_math.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(CheckedMath, ProductsThatWrapAreErrors) {
  for (const uint64_t extent : {uint64_t{1} << 33, (uint64_t{1} << 42) + 1, UINT64_MAX}) {
    EXPECT_THROW(checked_mul<uint64_t>(extent, extent, "a shape"), Error);
  }
  EXPECT_EQ(checked_mul<uint64_t>(1U << 31, 4, "a shape"), uint64_t{1} << 33);
}

TEST(CheckedMath, SumsThatWrapAreErrors) {
  EXPECT_THROW(checked_add<uint32_t>(UINT32_MAX, 1, "a size"), Error);
  EXPECT_EQ(checked_add<uint32_t>(UINT32_MAX, 0, "a size"), UINT32_MAX);
}

TEST(CheckedMath, CastsKeepTheValueOrNameTheArgument) {
  EXPECT_EQ((checked_cast<int32_t>(int64_t{-5}, "n")), -5);
  try {
    (void)checked_cast<uint32_t>(int64_t{-1}, "hidden_size");
    FAIL() << "a negative size passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    EXPECT_NE(std::string(error.what()).find("hidden_size"), std::string::npos);
  }
}

}  // namespace
}  // namespace quire
