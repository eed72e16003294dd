#include "core/drafting/draft_acceptance.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(DraftAcceptanceTest, AveragesTendToTheShareOfEachPosition) {
  DraftAcceptance acceptance(0.02F);
  for (int32_t step = 0; step < 1000; ++step)
    acceptance.observe(step % 4 == 0 ? 0 : step % 2 == 0 ? 1 : 2, true);
  EXPECT_NEAR(acceptance.at(0), 0.75F, 0.05F);
  EXPECT_NEAR(acceptance.at(1), 2.0F / 3.0F, 0.05F);
  EXPECT_LT(acceptance.at(2), 0.01F);
  EXPECT_EQ(acceptance.at(3), DraftAcceptance::kFirstShare) << "never reached";
}

TEST(DraftAcceptanceTest, FewOutcomesCountMuch) {
  DraftAcceptance acceptance(0.02F);
  for (int32_t step = 0; step < 4; ++step) acceptance.observe(0, true);
  EXPECT_NEAR(acceptance.at(0), DraftAcceptance::kFirstShare * DraftAcceptance::kPrior / 6.0F, 1e-5F);
  const DraftAcceptance next(acceptance, 0.02F);
  EXPECT_EQ(next.at(0), acceptance.at(0)) << "a new job begins with the shares of the others";
}

TEST(DraftAcceptanceTest, AWindowThatWasCutLeavesItsRestAsItWas) {
  DraftAcceptance acceptance(0.5F);
  acceptance.observe(1, false);
  EXPECT_GT(acceptance.at(0), DraftAcceptance::kFirstShare);
  EXPECT_EQ(acceptance.at(1), DraftAcceptance::kFirstShare);
}

TEST(DraftAcceptanceTest, AllPositionsMayBeAccepted) {
  DraftAcceptance acceptance(1.0F);
  acceptance.observe(kMaxDrafts, false);
  EXPECT_EQ(acceptance.at(kMaxDrafts - 1), 1.0F);
  acceptance.observe(kMaxDrafts, true);  // no position is left to be wrong
  EXPECT_EQ(acceptance.at(kMaxDrafts - 1), 1.0F);
}

}  // namespace
}  // namespace quire
