#include "core/drafting/draft_acceptance.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(DraftAcceptanceTest, AveragesTendToTheShareOfEachPosition) {
  DraftAcceptance acceptance;
  for (int32_t step = 0; step < 400; ++step)
    acceptance.observe(step % 4 == 0 ? 0 : step % 2 == 0 ? 1 : 2, true, 0.05F);
  EXPECT_NEAR(acceptance.at(0), 0.75F, 0.1F);
  EXPECT_NEAR(acceptance.at(1), 2.0F / 3.0F, 0.1F);
  EXPECT_LT(acceptance.at(2), 0.01F);
  EXPECT_EQ(acceptance.at(3), DraftAcceptance::kFirstShare) << "never reached";
}

TEST(DraftAcceptanceTest, AWindowThatWasCutSaysNothingOfItsRest) {
  DraftAcceptance acceptance;
  acceptance.observe(1, false, 0.5F);
  EXPECT_GT(acceptance.at(0), DraftAcceptance::kFirstShare);
  EXPECT_EQ(acceptance.at(1), DraftAcceptance::kFirstShare);
}

TEST(DraftAcceptanceTest, AllPositionsMayBeAccepted) {
  DraftAcceptance acceptance;
  acceptance.observe(kMaxDrafts, false, 1.0F);
  EXPECT_EQ(acceptance.at(kMaxDrafts - 1), 1.0F);
  acceptance.observe(kMaxDrafts, true, 1.0F);  // no position is left to be wrong
  EXPECT_EQ(acceptance.at(kMaxDrafts - 1), 1.0F);
}

}  // namespace
}  // namespace quire
