// Scheduler policy rules for jobs with two lanes, and for draft tokens.
#include <gtest/gtest.h>

#include "core/engine/scheduler/scheduler_policy.h"

namespace quire {
namespace {

class LanePolicyTest : public ::testing::Test {
 protected:
  LanePolicyTest() {
    for (TokenId i = 0; i < 100; ++i) tokens_.push_back(i);
    input_.limits = {8, 32, 32, 4, {}, 2, Duration{0}};
    input_.available_pages = 100;
    input_.demand_of = input_.demand_of_guide = [](int32_t) { return PageDemand{}; };
  }

  gsl::span<const TokenId> first(int32_t count) const {
    return gsl::span<const TokenId>(tokens_).first(static_cast<size_t>(count));
  }
  // Returns a lane with `length` tokens in the cache and `left` to compute.
  LaneView lane(int32_t length, int32_t left) const {
    LaneView lane;
    lane.tokens = first(length + left);
    lane.demand.length = length;
    lane.demand.held_pages = pages_for(length, 4);
    return lane;
  }
  RunningView& running(uint64_t order, int32_t length, int32_t left) {
    RunningView job;
    static_cast<LaneView&>(job) = lane(length, left);
    job.order = order;
    running_.push_back(job);
    return running_.back();
  }
  // Adds a guide lane to the last running job.
  void guide(int32_t length, int32_t left) {
    running_.back().guide = static_cast<int32_t>(guides_.size());
    guides_.push_back(lane(length, left));
  }
  WaitingView& waiting(uint64_t order, int32_t length) {
    WaitingView job;
    job.order = order;
    job.tokens = first(length);
    waiting_.push_back(job);
    return waiting_.back();
  }
  const PolicyOutput& plan() {
    input_.running = running_;
    input_.guides = guides_;
    input_.waiting = waiting_;
    input_.name_spaces = spaces_;
    plan_step(input_, output_);
    return output_;
  }
  int32_t granted(int32_t index, bool admits) const {
    for (const Grant& grant : output_.grants) {
      if (grant.index == index && grant.admits == admits) return grant.max_tokens;
    }
    return 0;
  }

  TokenIds tokens_;
  PolicyInput input_;
  std::vector<RunningView> running_;
  std::vector<LaneView> guides_;
  std::vector<WaitingView> waiting_;
  std::vector<NamespaceView> spaces_{2};
  PolicyOutput output_;
};

// Compares the tokens of lane and guide in each step until one job ends.
TEST_F(LanePolicyTest, TheLanesOfAJobEndInTheSameStep) {
  input_.limits.max_step_tokens = 6;
  running(1, 0, 9);
  guide(0, 8);
  std::vector<std::pair<int32_t, int32_t>> steps;
  while (steps.empty() || running_[0].demand.length < 9) {
    plan();
    ASSERT_EQ(output_.grants.size(), 1U);
    const Grant& grant = output_.grants[0];
    steps.emplace_back(grant.max_tokens, grant.guide_tokens);
    running_[0].demand.length += grant.max_tokens;
    guides_[0].demand.length += grant.guide_tokens;
    for (LaneView* const lane : {static_cast<LaneView*>(&running_[0]), &guides_[0]})
      lane->demand.held_pages = pages_for(lane->demand.length, 4);
  }
  EXPECT_EQ(steps, (std::vector<std::pair<int32_t, int32_t>>{{6, 0}, {2, 4}, {1, 4}}));
}

TEST_F(LanePolicyTest, TwoLanesWaitForTwoTokensOfAStep) {
  input_.limits.max_step_tokens = 2;
  running(1, 10, 1);
  running(2, 10, 1);
  guide(6, 1);
  plan();
  ASSERT_EQ(output_.grants.size(), 1U);
  EXPECT_EQ(granted(0, false), 1);
  running_.erase(running_.begin());
  plan();
  ASSERT_EQ(output_.grants.size(), 1U);
  EXPECT_EQ(output_.grants[0].guide_tokens, 1);
}

TEST_F(LanePolicyTest, PagesOfBothLanesCount) {
  running(1, 8, 1);
  guide(8, 1);
  input_.available_pages = 1;
  plan();
  EXPECT_EQ(output_.preempt, 0);
  input_.available_pages = 2;
  plan();
  EXPECT_EQ(granted(0, false), 1);
  spaces_[0].max_pages = 5;
  spaces_[0].held_pages = 4;
  plan();
  EXPECT_EQ(output_.preempt, 0) << "the quota leaves one page";
}

TEST_F(LanePolicyTest, AJobWithTwoLanesStartsIfTwoSlotsAreFree) {
  input_.limits.max_running_lanes = 3;
  input_.demand_of_guide = [](int32_t) { return PageDemand{}; };
  running(1, 8, 1);
  guide(8, 1);
  waiting(2, 5).guide_tokens = first(3);
  plan();
  EXPECT_EQ(granted(0, true), 0);
  ASSERT_TRUE(output_.blocked.has_value());
  EXPECT_EQ(output_.blocked->cause, BlockedJob::Cause::slots);
  input_.limits.max_running_lanes = 4;
  plan();
  EXPECT_EQ(granted(0, true), 5);
}

TEST_F(LanePolicyTest, AStepThatCannotFitAllDraftTokensComputesNone) {
  input_.limits.max_step_tokens = 4;
  running(1, 10, 6).num_candidates = 3;
  plan();
  EXPECT_EQ(granted(0, false), 2);
  EXPECT_EQ(output_.grants[0].num_logit_rows, 1);
  running_[0].demand.length = 12;
  plan();
  EXPECT_EQ(granted(0, false), 4);
  EXPECT_EQ(output_.grants[0].num_logit_rows, 4);
}

}  // namespace
}  // namespace quire
