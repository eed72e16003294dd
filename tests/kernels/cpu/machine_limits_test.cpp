// What is measured must be what it is called: all of the memory is read, and the operations are done.
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

// 16 pairs of codes (1, 1) of the first panel, and (2, 1) of the second where there is one, with rows of
// ones: a product is 2 * 16 in each lane, or 3 * 16; the rounds are joined by OR.
TEST_P(MachineLimits, AllOperationsAreDoneAndCounted) {
  CpuDevice device(GetParam());
  const kernels::IsaKernels& isa = device.handle()->isa;
  const std::vector<int16_t> ones(static_cast<size_t>(isa.max_tile_rows) * kernels::kBlockRows, 1);
  int32_t result = 0;
  const int64_t ops = isa.dot_rounds(ones.data(), 3, &result);
  EXPECT_EQ(ops, int64_t{3} * 2 * isa.max_tile_rows * kernels::kBlockRows * isa.max_quant_panels *
                     kernels::kPanelColumns);
  EXPECT_EQ(result, 16 * (isa.max_quant_panels == 2 ? 32 | 48 : 32));
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
