#include "core/stages/stage_memory.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

TEST(StageMemory, KeepsItsLimit) {
  const auto memory = std::make_shared<StageMemory>(std::vector{open_cpu()}, 1000);
  EXPECT_EQ(memory->total_bytes(), 1000U);
  {
    StageMemory::Reservation first = memory->reserve(600, "the first");
    EXPECT_EQ(memory->free_bytes(), 400U);
    expect_error(ErrorCode::out_of_memory, {"the second", "401", "400", "1000"},
                 [&] { (void)memory->reserve(401, "the second"); });
    expect_error(ErrorCode::out_of_memory, {"1001"}, [&] { first.resize(1001, "the first"); });
    EXPECT_EQ(memory->reserved_bytes(), 600U);
    first.resize(1000, "the first");
    EXPECT_EQ(memory->free_bytes(), 0U);
    StageMemory::Reservation moved = std::move(first);
    EXPECT_EQ(memory->reserved_bytes(), 1000U);
    expect_error(ErrorCode::out_of_memory, {}, [&] { (void)memory->reserve(UINT64_MAX, "a hostile one"); });
  }
  EXPECT_EQ(memory->free_bytes(), 1000U);
}

TEST(StageMemory, WithoutALimitIsThatOfTheDevice) {
  const auto memory = std::make_shared<StageMemory>(std::vector{open_cpu()}, 0);
  EXPECT_GT(memory->total_bytes(), 0U);
  const StageMemory::Reservation all = memory->reserve(uint64_t{1} << 60, "much");
  EXPECT_GT(memory->free_bytes(), 0U);
}

// Shards take the same amount of each device.
TEST(StageMemory, OfSeveralDevicesIsThatOfTheLeastTimesTheirNumber) {
  const std::vector devices = {open_cpu(5000), open_cpu(3000), open_cpu(4000)};
  EXPECT_EQ(std::make_shared<StageMemory>(devices, 0)->free_bytes(), 9000U);
  const auto memory = std::make_shared<StageMemory>(devices, 8000);
  EXPECT_EQ(memory->total_bytes(), 8000U);
  EXPECT_EQ(memory->free_bytes(), 8000U);
  const StageMemory::Reservation half = memory->reserve(4000, "half");
  EXPECT_EQ(memory->free_bytes(), 4000U);
}

}  // namespace
}  // namespace quire::testing
