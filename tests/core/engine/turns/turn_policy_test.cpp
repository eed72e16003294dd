#include "core/engine/turns/turn_policy.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/case_stride.h"

namespace quire {
namespace {

const std::vector<int32_t> kCpu = {0};
const std::vector<int32_t> kCard = {1};
const std::vector<int32_t> kBoth = {0, 1};

TurnView view(TurnState state, double served, const std::vector<int32_t>& devices = kCpu) {
  TurnView of;
  of.state = state;
  of.served = served;
  of.devices = devices;
  return of;
}

std::vector<int32_t> choose(const std::vector<TurnView>& caches, const TurnBounds& bounds = {}) {
  std::vector<int32_t> scratch;
  std::vector<int32_t> chosen;
  choose_turns(caches, bounds, scratch, chosen);
  return chosen;
}

using Places = std::vector<int32_t>;

TEST(TurnPolicy, GivesTheDeviceToTheCacheWithTheLeastTime) {
  EXPECT_EQ(choose({view(TurnState::wants, 2.0), view(TurnState::wants, 1.99)}), Places{1});
  EXPECT_EQ(choose({view(TurnState::wants, 2.0), view(TurnState::idle, 1.0)}), Places{0});
  EXPECT_EQ(choose({view(TurnState::wants, 2.0), view(TurnState::holds, 3.0)}), Places{});
  EXPECT_EQ(choose({}), Places{});
}

TEST(TurnPolicy, LetsTheCurrentCacheContinueForASlice) {
  const TurnBounds bounds{0.1, 0.01};
  EXPECT_EQ(choose({view(TurnState::returns, 1.009), view(TurnState::wants, 1.0)}, bounds), Places{0});
  EXPECT_EQ(choose({view(TurnState::returns, 1.011), view(TurnState::wants, 1.0)}, bounds), Places{1});
}

TEST(TurnPolicy, CachesWithoutACommonDeviceDoNotWaitForEachOther) {
  EXPECT_EQ(
      choose({view(TurnState::wants, 9.0, kCard), view(TurnState::wants, 1.0), view(TurnState::holds, 0.0)}),
      Places{0});
  EXPECT_EQ(choose({view(TurnState::wants, 1.0, kCard), view(TurnState::wants, 2.0)}), (Places{0, 1}));
  EXPECT_EQ(choose({view(TurnState::wants, 1.0, {}), view(TurnState::wants, 1.0, {})}), (Places{0, 1}))
      << "without devices";
}

TEST(TurnPolicy, KeepsAFreeDeviceForTheFirstCacheIfItNeedsSeveral) {
  EXPECT_EQ(choose({view(TurnState::wants, 1.0, kBoth), view(TurnState::holds, 1.5),
                    view(TurnState::wants, 2.0, kCard)}),
            Places{})
      << "the card is kept for it";
  EXPECT_EQ(choose({view(TurnState::wants, 3.0, kBoth), view(TurnState::holds, 1.5),
                    view(TurnState::wants, 2.0, kCard)}),
            Places{2});
  EXPECT_EQ(choose({view(TurnState::wants, 1.0, kBoth), view(TurnState::wants, 2.0, kCard)}), Places{0});
}

TEST(TurnPolicy, PrioritiesAndDeadlinesCountWithinTheLead) {
  const TurnBounds bounds{0.1, 0.0};
  TurnView low = view(TurnState::wants, 1.0);
  TurnView high = view(TurnState::wants, 1.05);
  high.priority = 1;
  EXPECT_EQ(choose({low, high}, bounds), Places{1});
  high.served = 1.2;
  EXPECT_EQ(choose({low, high}, bounds), Places{0}) << "beyond its lead";
  high.priority = 0;
  high.served = 1.05;
  high.deadline = TimePoint(Duration(5));
  EXPECT_EQ(choose({low, high}, bounds), Places{1});
  low.deadline = TimePoint(Duration(4));
  EXPECT_EQ(choose({low, high}, bounds), Places{0});
  high.priority = 1;
  EXPECT_EQ(choose({low, high}, bounds), Places{1}) << "priority before deadline";
}

TEST(TurnPolicy, AnIdleCacheAccumulatesNoCredit) {
  EXPECT_EQ(served_after_idle(1.0, 5.0), 5.0);
  EXPECT_EQ(served_after_idle(6.0, 5.0), 6.0);
}

// Steps of random lengths: if all caches always need the device, each gets its share of the time by weight
// within 10 %, over any window of 1,000 steps. If 10 % of a share is less than one of its steps this is
// impossible, because steps are not divided. In every case a share deviates by at most the time of a slice, a
// step and the lead of a priority, however long the window is.
class Shares : public ::testing::TestWithParam<uint32_t> {
 protected:
  int below(uint32_t limit) { return static_cast<int>(random_() % limit); }

  void make_caches(bool have_priorities) {
    caches_.resize(2 + static_cast<size_t>(below(4)), view(TurnState::wants, 0.0));
    for (TurnView& cache : caches_) {
      weights_.push_back(0.5 + 0.5 * below(8));
      typical_.push_back(1e-4 * (1 + below(40)));
      const int priority = below(3);
      if (have_priorities) cache.priority = priority;
    }
    all_weights_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  }
  void run(int num_steps, const TurnBounds& bounds) {
    std::vector<double> used(caches_.size(), 0.0);
    for (int step = 0; step < num_steps; ++step) {
      const std::vector<int32_t> chosen = choose(caches_, bounds);
      ASSERT_EQ(chosen.size(), 1U);
      const auto place = static_cast<size_t>(chosen.front());
      const double took = typical_[place] * (0.5 + 0.01 * below(100));
      used[place] += took;
      caches_[place].served += took / weights_[place];
      for (TurnView& cache : caches_) cache.state = TurnState::wants;
      caches_[place].state = TurnState::returns;
      history_.push_back(used);
    }
  }
  // Returns the time of a cache during num_steps steps from `start` on; time_of_all returns that of all
  // caches.
  double time_of(size_t cache, size_t start, size_t num_steps) const {
    return history_[start + num_steps][cache] - history_[start][cache];
  }
  double time_of_all(size_t start, size_t num_steps) const {
    double all = 0.0;
    for (size_t i = 0; i < caches_.size(); ++i) all += time_of(i, start, num_steps);
    return all;
  }

  std::mt19937 random_{GetParam()};
  std::vector<TurnView> caches_;
  std::vector<double> weights_;
  std::vector<double> typical_;  // typical seconds per step, by cache
  double all_weights_ = 0.0;
  std::vector<std::vector<double>> history_;  // by step: total time of each cache so far
};

TEST_P(Shares, FollowTheWeightsOverAnyThousandSteps) {
  make_caches(true);
  run(6000, {0.02, 0.001});
  for (size_t start = 1000; start + 1000 < history_.size(); start += 500) {
    const double all = time_of_all(start, 1000);
    for (size_t i = 0; i < caches_.size(); ++i) {
      const double wanted = weights_[i] / all_weights_;
      EXPECT_NEAR(time_of(i, start, 1000) / all, wanted, 0.1 * wanted + 0.02)
          << "seed " << GetParam() << ", cache " << i << ", from step " << start;
    }
  }
}

TEST_P(Shares, DeviateByAtMostASliceAStepAndTheLead) {
  const TurnBounds bounds{0.1, 0.004};  // as in a runtime
  const bool have_priorities = GetParam() % 2 == 0;
  make_caches(have_priorities);
  run(20000, bounds);
  double longest_step = 0.0;  // in virtual time
  for (size_t i = 0; i < caches_.size(); ++i)
    longest_step = std::max(longest_step, 1.5 * typical_[i] / weights_[i]);
  const double most_off = 2 * (bounds.slice + longest_step) + (have_priorities ? bounds.max_lead : 0.0);
  for (const size_t length : {size_t{100}, size_t{1000}, size_t{10000}}) {
    for (size_t start = 0; start + length < history_.size(); start += 50) {
      const double all = time_of_all(start, length);
      for (size_t i = 0; i < caches_.size(); ++i)
        ASSERT_NEAR(time_of(i, start, length), all * weights_[i] / all_weights_, most_off * weights_[i])
            << "cache " << i << ", " << length << " steps from step " << start;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Shares, ::testing::Range(1U, testing::kIsSanitized ? 8U : 40U));

// No cache starves, whatever the others need: with caches on one device and on both.
TEST(TurnPolicy, EveryCacheGetsItsTurn) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<TurnView> caches = {view(TurnState::wants, 0.0, kBoth), view(TurnState::wants, 0.0, kCpu),
                                    view(TurnState::wants, 0.0, kCard), view(TurnState::wants, 0.0, kBoth)};
    for (TurnView& cache : caches) cache.priority = static_cast<int32_t>(random() % 3);
    std::vector<int> num_turns(caches.size(), 0);
    std::vector<double> ends(caches.size(), 0.0);
    double now = 0.0;
    for (int event = 0; event < 4000; ++event) {
      for (const int32_t place : choose(caches)) {
        const auto idx = static_cast<size_t>(place);
        caches[idx].state = TurnState::holds;
        ends[idx] = now + 1e-3 * static_cast<double>(1 + random() % 9);
        ++num_turns[idx];
      }
      double next = 1e9;
      size_t first = caches.size();
      for (size_t i = 0; i < caches.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          ASSERT_FALSE(caches[i].state == TurnState::holds && caches[j].state == TurnState::holds &&
                       share_device(caches[i], caches[j]))
              << "a device computes for two";
        }
        if (caches[i].state == TurnState::holds && ends[i] < next) next = ends[first = i];
      }
      ASSERT_LT(first, caches.size()) << "no cache computes";
      caches[first].served += next - now;
      now = next;
      caches[first].state = TurnState::wants;
    }
    for (const int turns : num_turns) EXPECT_GT(turns, 300) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
