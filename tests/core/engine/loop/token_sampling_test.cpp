// Draws of a step, by the host or by the device.
#include "core/engine/loop/token_sampling.h"

#include "tests/core/engine/loop/loop_parts.h"

namespace quire::testing {
namespace {

class TokenSamplingTest : public ::testing::Test {
 protected:
  LoopParts parts;
  const TokenIds expected = fake_greedy(kPrompt, 8, kVocab);
};

TEST_F(TokenSamplingTest, TheHostDrawsWhatTheDeviceDraws) {
  LoopParts device({.draws_on_device = true});
  const auto there = device.submit(greedy(kPrompt, 8));
  const auto here = parts.submit(greedy(kPrompt, 8));
  while (parts.step()) {
  }
  while (device.step()) {
  }
  EXPECT_EQ(read_all(*here).tokens, expected);
  EXPECT_EQ(read_all(*there).tokens, expected);
  EXPECT_EQ(parts.executor.num_rows_drawn(), 0);
  EXPECT_GE(device.executor.num_rows_drawn(), 8);
}

TEST_F(TokenSamplingTest, StopTokensAreBannedBeforeTheLeastLength) {
  JobRequest request = greedy(kPrompt, 4);
  request.stop_tokens = {expected[0]};
  request.min_new_tokens = 1;
  const auto job = parts.submit(request);
  ASSERT_TRUE(parts.verify_step());
  EXPECT_NE(drawn_tokens(*parts.record(*job)).front(), expected[0]);
}

}  // namespace
}  // namespace quire::testing
