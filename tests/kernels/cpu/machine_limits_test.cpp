// The measurements must do what they claim: read all of the memory, and execute all operations.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "tests/kernels/cpu/cpu_device.h"

namespace quire::testing {
namespace {

using kernels::Status;

class MachineLimits : public EachIsa {};

TEST_P(MachineLimits, ReadingTouchesEveryWord) {
  CpuDevice device(GetParam());
  std::vector<uint32_t> words(512);
  const size_t bytes = words.size() * sizeof(uint32_t);
  EXPECT_EQ(device.handle()->isa.read_once(words.data(), bytes), 0U);
  for (uint32_t& word : words) {
    word = 1;
    EXPECT_NE(device.handle()->isa.read_once(words.data(), bytes), 0U) << "word " << &word - words.data();
    word = 0;
  }
}

// Rows of ones and a block of codes 1 (and 2 in a second panel); rounds are combined by OR.
TEST_P(MachineLimits, AllOperationsAreDoneAndCounted) {
  CpuDevice device(GetParam());
  const kernels::IsaKernels& isa = device.handle()->isa;
  const std::vector<float> row(kernels::kBlockRows, 1.0f);
  std::vector<int8_t> x(static_cast<size_t>(isa.full.max_tile_rows) * kernels::kBlockRows * 2);
  std::vector<float> scales(static_cast<size_t>(isa.full.max_tile_rows));
  std::vector<int32_t> sums(scales.size()), half_sums(scales.size());
  for (int32_t r = 0; r < isa.full.max_tile_rows; ++r) {
    isa.full.quantize_row(
        {row.data(), nullptr, kernels::kBlockRows, 1},
        {x.data(), scales.data(), sums.data(), half_sums.data(), r, isa.full.max_tile_rows});
  }
  const int32_t product = sums[0];
  EXPECT_EQ(product, kernels::kBlockRows * 32639);
  int32_t result = 0;
  const int64_t ops = isa.dot_rounds(x.data(), 3, &result);
  EXPECT_EQ(ops, int64_t{3} * 2 * isa.full.max_tile_rows * kernels::kBlockRows * isa.max_quant_panels *
                     kernels::kPanelColumns);
  EXPECT_EQ(result, kernels::kPanelColumns * (isa.max_quant_panels == 2 ? product | 2 * product : product));
}

TEST_P(MachineLimits, RatesArePositiveForAWorkingSetOfAnySize) {
  CpuDevice device(GetParam());
  double rate = 0.0;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{3} << 20}) {
    EXPECT_EQ(device.table().measure_read_rate(device.handle(), bytes, &rate), Status::ok);
    EXPECT_TRUE(std::isfinite(rate) && rate > 0.0) << rate;
  }
  EXPECT_EQ(device.table().measure_op_rate(device.handle(), &rate), Status::ok);
  EXPECT_TRUE(std::isfinite(rate) && rate > 0.0) << rate;
}

QUIRE_FOR_EACH_ISA(MachineLimits);

}  // namespace
}  // namespace quire::testing
