// Rules of the scheduler policy, one by one, on plain structs.
#include "core/engine/scheduler/scheduler_policy.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace quire {
namespace {

class SchedulerPolicyTest : public ::testing::Test {
 protected:
  SchedulerPolicyTest() {
    for (TokenId i = 0; i < 1000; ++i) tokens_.push_back(i);
    input_.limits = {8, 32, 32, 4, {}, 2, Duration{0}};
    input_.available_pages = 100;
    spaces_.resize(2);
    input_.demand_of = [this](int32_t index) { return demands_[static_cast<size_t>(index)]; };
  }

  // Adds a running job with `length` tokens in the cache and `left` to compute.
  RunningView& running(uint64_t order, int32_t length, int32_t left) {
    RunningView job;
    job.order = order;
    job.tokens = gsl::span<const TokenId>(tokens_).first(static_cast<size_t>(length + left));
    job.demand.length = length;
    job.demand.held_pages = pages_for(length, 4);
    running_.push_back(job);
    return running_.back();
  }

  WaitingView& waiting(uint64_t order, int32_t length) {
    WaitingView job;
    job.order = order;
    job.tokens = gsl::span<const TokenId>(tokens_).first(static_cast<size_t>(length));
    waiting_.push_back(job);
    demands_.emplace_back();
    return waiting_.back();
  }

  const PolicyOutput& plan() {
    input_.running = running_;
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
  std::vector<WaitingView> waiting_;
  std::vector<PageDemand> demands_;
  std::vector<NamespaceView> spaces_;
  PolicyOutput output_;
};

TEST_F(SchedulerPolicyTest, DecodingComesFirstAndAPromptTakesTheRest) {
  running(1, 0, 100);
  running(2, 10, 1);
  running(3, 20, 1);
  plan();
  EXPECT_EQ(granted(0, false), 30);
  EXPECT_EQ(granted(1, false), 1);
  EXPECT_EQ(granted(2, false), 1);
}

TEST_F(SchedulerPolicyTest, DraftTokensAreGrantedWithTheirRows) {
  running(1, 10, 4).num_candidates = 3;
  plan();
  EXPECT_EQ(granted(0, false), 4);
  EXPECT_EQ(output_.grants[0].num_logit_rows, 4);
}

TEST_F(SchedulerPolicyTest, WaitingJobsGoByPriorityThenDeadlineThenOrder) {
  input_.limits.max_running_lanes = 1;
  waiting(1, 5);
  waiting(2, 5).priority = 1;
  waiting(3, 5).priority = 1;
  waiting_[2].deadline = TimePoint(std::chrono::seconds(1));
  plan();
  ASSERT_EQ(output_.grants.size(), 1U);
  EXPECT_EQ(output_.grants[0].index, 2);
}

TEST_F(SchedulerPolicyTest, WaitingRaisesPriority) {
  input_.limits.max_running_lanes = 1;
  input_.limits.ageing_interval = std::chrono::seconds(1);
  waiting(1, 5).waited = std::chrono::seconds(6);
  waiting(2, 5).priority = 5;
  plan();
  EXPECT_EQ(output_.grants[0].index, 0);
  EXPECT_EQ(output_.grants[0].priority, 6) << "its age protects it once it runs";
}

TEST_F(SchedulerPolicyTest, TheNamespaceServedLeastGoesFirst) {
  input_.limits.max_running_lanes = 1;
  spaces_[0].served = 1000;
  waiting(1, 5);
  waiting(2, 5).name_space = 1;
  plan();
  EXPECT_EQ(output_.grants[0].index, 1);
}

TEST_F(SchedulerPolicyTest, ANamespaceOverItsQuotaDoesNotHoldUpOthers) {
  spaces_[0].max_running_jobs = 1;
  spaces_[0].running_jobs = 1;
  waiting(1, 5);
  waiting(2, 5).name_space = 1;
  plan();
  EXPECT_EQ(granted(0, true), 0);
  EXPECT_EQ(granted(1, true), 5);
  EXPECT_TRUE(output_.overtaken.empty());
}

TEST_F(SchedulerPolicyTest, AJobThatDoesNotFitIsOvertakenALimitedNumberOfTimes) {
  input_.available_pages = 10;
  waiting(1, 60);
  for (uint64_t i = 2; i < 8; ++i) waiting(i, 4);
  plan();
  EXPECT_EQ(output_.overtaken.size(), 2U) << "max_overtakes counts within one step as well";
  EXPECT_EQ(output_.grants.size(), 2U);
  waiting_[0].overtaken = 2;
  plan();
  EXPECT_TRUE(output_.grants.empty()) << "the job gates";
  ASSERT_TRUE(output_.blocked.has_value());
  EXPECT_TRUE(output_.blocked->gates);
  EXPECT_EQ(output_.blocked->needed_pages, 15);
}

TEST_F(SchedulerPolicyTest, TheLowestJobIsPreemptedIfPagesRunOut) {
  input_.available_pages = 0;
  running(1, 8, 1);
  running(2, 7, 1);
  running(3, 8, 1);
  plan();
  EXPECT_EQ(output_.preempt, 2);
  EXPECT_TRUE(output_.grants.empty());
}

TEST_F(SchedulerPolicyTest, TheLowestJobThatNeedsPagesIsPreemptedItself) {
  input_.available_pages = 0;
  running(1, 7, 1);
  running(2, 8, 1);
  plan();
  EXPECT_EQ(output_.preempt, 1);
}

TEST_F(SchedulerPolicyTest, AJobThatFindsNoPageAndHoldsNoneGoesBackToTheQueue) {
  input_.available_pages = 0;
  running(1, 0, 5);
  plan();
  EXPECT_EQ(output_.preempt, 0);
}

TEST_F(SchedulerPolicyTest, APausedJobIsPreemptedBeforeAnyOther) {
  input_.available_pages = 0;
  running(1, 8, 1).runnable = false;
  running(2, 8, 1);
  running(3, 8, 1);
  plan();
  EXPECT_EQ(output_.preempt, 0);
}

// Otherwise a reader that waits for one job's events and ignores another's would wait for ever.
TEST_F(SchedulerPolicyTest, APausedJobReleasesTheQuotaOfItsNamespace) {
  for (const bool of_jobs : {true, false}) {
    spaces_[0] = {};
    (of_jobs ? spaces_[0].max_running_jobs : spaces_[0].max_pages) = of_jobs ? 1 : 3;
    spaces_[0].running_jobs = 1;
    spaces_[0].held_pages = 2;
    running_.clear();
    waiting_.clear();
    demands_.clear();
    RunningView& other = running(1, 8, 1);
    other.name_space = 1;
    other.runnable = false;
    running(2, 8, 1);
    waiting(3, 8);
    plan();
    EXPECT_FALSE(output_.preempt.has_value())
        << "a running job keeps its quota; quotas of other namespaces do not count";
    ASSERT_EQ(output_.deferred.size(), 1U);
    EXPECT_EQ(output_.deferred[0].cause,
              of_jobs ? BlockedJob::Cause::quota_jobs : BlockedJob::Cause::quota_pages);
    running_[1].runnable = false;
    plan();
    EXPECT_EQ(output_.preempt, 1);
  }
}

TEST_F(SchedulerPolicyTest, AJobThatExceedsTheQuotaOfItsNamespacePreemptsALowerOne) {
  running(1, 8, 1);
  running(2, 8, 1).name_space = 1;
  running(3, 7, 1);
  running(4, 8, 1).name_space = 1;
  spaces_[0].max_pages = 4;
  spaces_[0].held_pages = 4;
  plan();
  EXPECT_EQ(output_.preempt, 2) << "the lowest of the namespace, though it needs no page itself";
  running_.erase(running_.begin() + 2);
  spaces_[0].held_pages = 2;
  plan();
  EXPECT_EQ(output_.grants.size(), 3U);
}

TEST_F(SchedulerPolicyTest, TheLowestJobOfItsNamespaceIsPreemptedItself) {
  running(1, 7, 1);
  running(2, 8, 1);
  running(3, 8, 1).name_space = 1;
  spaces_[0].max_pages = 4;
  spaces_[0].held_pages = 4;
  plan();
  EXPECT_EQ(output_.preempt, 1);
}

// A prompt of higher priority does not preempt a generating job, because decoding jobs come first.
TEST_F(SchedulerPolicyTest, APromptWaitsForAQuotaThatAJobOfThisStepHolds) {
  running(1, 8, 20).priority = 1;
  running(2, 8, 1);
  spaces_[0].max_pages = 5;
  spaces_[0].held_pages = 4;
  plan();
  EXPECT_FALSE(output_.preempt.has_value());
  EXPECT_EQ(granted(1, false), 1);
  EXPECT_EQ(granted(0, false), 0);
}

TEST_F(SchedulerPolicyTest, APromptIsComputedUpToTheQuota) {
  running(1, 0, 30);
  spaces_[0].max_pages = 5;
  plan();
  EXPECT_EQ(granted(0, false), 20);
}

TEST_F(SchedulerPolicyTest, PagesThatAreSharedCountForTheQuotaOfEachHolder) {
  spaces_[0].max_pages = 4;
  spaces_[0].held_pages = 2;
  spaces_[0].running_jobs = 1;
  running(1, 7, 1);
  waiting(2, 12);
  demands_[0].found_tokens = 8;
  demands_[0].found_pages = 2;
  plan();
  EXPECT_EQ(granted(0, true), 0);
  ASSERT_EQ(output_.deferred.size(), 1U);
  EXPECT_EQ(output_.deferred[0].cause, BlockedJob::Cause::quota_pages);
  EXPECT_EQ(output_.deferred[0].needed_pages, 3);
  spaces_[0].max_pages = 6;
  plan();
  EXPECT_EQ(granted(0, true), 4);
}

// A stream of urgent jobs, each of which takes the only slot for one step, and one job of lower priority.
class StarvationTest : public SchedulerPolicyTest {
 protected:
  static constexpr Duration kStep = std::chrono::milliseconds(100);
  static constexpr int32_t kUrgency = 5;

  // Returns the number of steps until the lower job starts; -1 if it does not within num_steps.
  int32_t steps_until_it_begins(int32_t num_steps) {
    input_.limits.max_running_lanes = 1;
    for (int32_t step = 0; step < num_steps; ++step) {
      waiting_.clear();
      demands_.clear();
      waiting(1, 5).waited = kStep * step;
      waiting(2 + static_cast<uint64_t>(step), 5).priority = kUrgency;
      plan();
      if (granted(0, true) > 0) return step;
    }
    return -1;
  }
};

TEST_F(StarvationTest, WithoutAgeingALowerJobWaitsForAllHigherOnes) {
  EXPECT_EQ(steps_until_it_begins(10'000), -1);
}

TEST_F(StarvationTest, WithAgeingItWaitsInProportionToThePriorityGap) {
  for (const int32_t seconds : {1, 2, 7}) {
    input_.limits.ageing_interval = std::chrono::seconds(seconds);
    EXPECT_EQ(steps_until_it_begins(10'000), kUrgency * (input_.limits.ageing_interval / kStep));
  }
}

TEST_F(SchedulerPolicyTest, OnlyAHigherPriorityPreemptsForASlot) {
  input_.limits.max_running_lanes = 1;
  running(1, 8, 1).priority = 1;
  waiting(2, 5).priority = 1;
  EXPECT_FALSE(plan().preempt.has_value());
  waiting_[0].priority = 2;
  EXPECT_EQ(plan().preempt, 0);
}

TEST_F(SchedulerPolicyTest, ASuspectRunsAlone) {
  running(1, 8, 1);
  running(2, 8, 1).suspect = true;
  waiting(3, 5);
  plan();
  ASSERT_EQ(output_.grants.size(), 1U);
  EXPECT_EQ(output_.grants[0].index, 1);
}

TEST_F(SchedulerPolicyTest, APromptWaitsForThePageAnotherComputes) {
  PageDemand start;
  start.tail = ContentId{1};
  start.publishes = true;
  running(1, 0, 40).demand = start;
  running(2, 0, 40).demand = start;
  input_.limits.max_step_tokens = 64;
  plan();
  EXPECT_EQ(granted(0, false), 40);
  EXPECT_EQ(granted(1, false), 0);
  running_[1].demand.tail = ContentId{2};
  plan();
  EXPECT_EQ(granted(1, false), 24) << "a different prompt is not waited for";
}

TEST_F(SchedulerPolicyTest, AScoringJobIsGrantedNoMoreTokensThanRows) {
  input_.limits.max_logit_rows = 6;
  running(1, 0, 40).wants_all_rows = true;
  plan();
  EXPECT_EQ(granted(0, false), 6);
}

// A window of 8 tokens over pages of 4 uses at most three slots.
class WindowPolicyTest : public SchedulerPolicyTest {
 protected:
  WindowPolicyTest() { input_.limits.windows[0] = 8; }

  // Returns the slots that a job of that length uses.
  static SlotDemand slots_at(int32_t length) {
    const int32_t end = pages_for(length, 4);
    return {end - std::min(end, first_kept_page(length, 8, 4)), end, 0};
  }
  RunningView& running_in_window(uint64_t order, int32_t length, int32_t left) {
    RunningView& job = running(order, length, left);
    job.demand.slots[0] = slots_at(length);
    return job;
  }
};

TEST_F(WindowPolicyTest, SlotsAreKeptForTheWindowOfAJobThatReservesItsWholeLength) {
  running_in_window(1, 4, 1).reserve_tokens = 400;  // has one slot, needs two more
  running_in_window(2, 4, 1);
  input_.unused_slots[0] = 2;
  plan();
  EXPECT_EQ(output_.preempt, 1) << "both slots are kept for the first";
  input_.unused_slots[0] = 3;
  plan();
  EXPECT_EQ(granted(0, false), 1);
  EXPECT_EQ(granted(1, false), 1);
}

TEST_F(WindowPolicyTest, AJobThatReservesItsWholeLengthUsesItsOwnSlots) {
  running_in_window(1, 4, 1).reserve_tokens = 400;
  input_.unused_slots[0] = 2;
  plan();
  EXPECT_EQ(granted(0, false), 1);
}

TEST_F(WindowPolicyTest, AJobThatReservesItsWholeLengthStartsIfItsWindowFits) {
  waiting(1, 2).reserve_tokens = 400;
  input_.unused_slots[0] = 2;
  plan();
  EXPECT_EQ(granted(0, true), 0);
  ASSERT_TRUE(output_.blocked.has_value());
  EXPECT_EQ(output_.blocked->group, 0);
  input_.unused_slots[0] = 3;
  plan();
  EXPECT_EQ(granted(0, true), 2);
}

TEST_F(WindowPolicyTest, ANewJobDoesNotStartInKeptSlots) {
  running_in_window(1, 4, 1).reserve_tokens = 400;
  waiting(2, 2);
  input_.unused_slots[0] = 2;
  plan();
  EXPECT_EQ(granted(0, false), 1);
  EXPECT_EQ(granted(0, true), 0);
}

// For any state: the tokens, rows, pages, slots and quotas of the step suffice for all grants, no job is
// granted twice, and a step is not empty if a running job could take part or if all jobs wait and one of them
// fits. If a job finds no page, another job or the job itself is preempted, so that the rules of the queue
// apply to it.
class SchedulerPolicyPropertyTest : public SchedulerPolicyTest {
 protected:
  static constexpr int32_t kPageTokens = 4;

  int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }

  void random_state() {
    running_.clear();
    waiting_.clear();
    demands_.clear();
    const int32_t max_jobs = 1 + below(8);
    const int32_t max_tokens = 8 + below(40);
    input_.limits = {max_jobs, max_tokens, 8 + below(40), kPageTokens, {}, below(4), Duration{0}};
    input_.available_pages = below(30);
    input_.limits.windows[0] = below(2) == 0 ? 1 + below(30) : 0;
    input_.unused_slots[0] = below(24);
    spaces_.assign(2, {});
    uint64_t order = 0;
    for (int32_t n = below(1 + max_jobs); n > 0; --n) {
      const int32_t length = below(3) == 0 ? 0 : below(40);
      RunningView& job = running(++order, length, 1 + below(30));
      job.priority = below(3);
      job.runnable = below(6) != 0;
      job.suspect = below(12) == 0;
      job.wants_all_rows = below(8) == 0;
      job.reserve_tokens = below(8) == 0 ? static_cast<int32_t>(job.tokens.size()) + below(20) : 0;
      job.demand.copies_tail = length % kPageTokens != 0 && below(6) == 0;
      if (input_.limits.windows[0] > 0) {
        const int32_t end = pages_for(length, kPageTokens);
        const int32_t first = std::min(end, first_kept_page(length, input_.limits.windows[0], kPageTokens));
        job.demand.slots[0] = {end - first, end, 0};
      }
      job.name_space = below(2);
      ++space_of(job).running_jobs;
      space_of(job).held_pages += job.demand.held_pages;
    }
    for (int32_t n = below(6); n > 0; --n) {
      WaitingView& job = waiting(++order, 1 + below(50));
      job.priority = below(3);
      job.runnable = below(6) != 0;
      job.overtaken = below(4);
      job.reserve_tokens = below(8) == 0 ? static_cast<int32_t>(job.tokens.size()) + below(20) : 0;
      job.name_space = below(2);
    }
    for (NamespaceView& space : spaces_) space.max_pages = below(2) == 0 ? space.held_pages + below(15) : 0;
  }

  template <typename View>
  NamespaceView& space_of(const View& job) {
    return spaces_[static_cast<size_t>(job.name_space)];
  }

  void check_sums() {
    int32_t tokens = 0;
    int32_t pages = 0;
    int32_t rows = 0;
    int32_t slots = 0;
    std::vector<int32_t> held;
    for (const NamespaceView& space : spaces_) held.push_back(space.held_pages);
    std::set<std::pair<bool, int32_t>> seen;
    for (const Grant& grant : output_.grants) {
      const auto index = static_cast<size_t>(grant.index);
      const PageDemand& demand = grant.admits ? demands_[index] : running_[index].demand;
      const int32_t reserve = grant.admits ? waiting_[index].reserve_tokens : running_[index].reserve_tokens;
      EXPECT_TRUE(grant.admits ? waiting_[index].runnable : running_[index].runnable);
      EXPECT_TRUE(seen.insert({grant.admits, grant.index}).second) << "granted twice";
      EXPECT_GE(grant.max_tokens, 1);
      tokens += grant.max_tokens;
      rows += std::min(grant.num_logit_rows, grant.max_tokens);
      pages += pages_needed(demand, grant.max_tokens, reserve, kPageTokens);
      if (input_.limits.windows[0] > 0) slots += slots_needed(demand, 0, grant.max_tokens, kPageTokens);
      const int32_t space = grant.admits ? waiting_[index].name_space : running_[index].name_space;
      held[static_cast<size_t>(space)] += pages_gained(demand, grant.max_tokens, reserve, kPageTokens);
    }
    for (size_t i = 0; i < spaces_.size(); ++i) {
      if (spaces_[i].max_pages == 0) continue;
      EXPECT_LE(held[i], spaces_[i].max_pages) << "namespace " << i;
    }
    EXPECT_LE(tokens, input_.limits.max_step_tokens);
    EXPECT_LE(rows, input_.limits.max_logit_rows);
    EXPECT_LE(pages, input_.available_pages);
    EXPECT_LE(slots, input_.unused_slots[0]);
  }

  bool fits(const WaitingView& job) const {
    const auto num_tokens = static_cast<int32_t>(job.tokens.size());
    const int32_t table = pages_needed({}, num_tokens, job.reserve_tokens, kPageTokens);
    const int32_t max_pages = spaces_[static_cast<size_t>(job.name_space)].max_pages;
    const int32_t window = input_.limits.windows[0];
    const int32_t length = std::max(num_tokens, job.reserve_tokens);
    const bool has_slots =
        window == 0 || slots_of_whole_job(length, window, kPageTokens) <= input_.unused_slots[0];
    return has_slots && table <= input_.available_pages && (max_pages == 0 || table <= max_pages);
  }

  bool somebody_could_act() const {
    if (!running_.empty()) {
      return std::any_of(running_.begin(), running_.end(), [](const auto& job) { return job.runnable; });
    }
    const bool gated = std::any_of(waiting_.begin(), waiting_.end(), [&](const WaitingView& job) {
      return job.runnable && !fits(job) && job.overtaken >= input_.limits.max_overtakes;
    });
    return !gated && std::any_of(waiting_.begin(), waiting_.end(),
                                 [&](const WaitingView& job) { return job.runnable && fits(job); });
  }

  void check_progress() {
    const bool acts = !output_.grants.empty() || output_.preempt.has_value();
    EXPECT_TRUE(acts || !somebody_could_act());
  }

  std::mt19937 random_{7};
};

TEST_F(SchedulerPolicyPropertyTest, GrantsNeverExceedTheLimitsAndSomeJobProceeds) {
  for (int32_t round = 0; round < 20000; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    random_state();
    plan();
    check_sums();
    check_progress();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace quire
