#include "core/engine/turns/turn_policy.h"

#include <random>

#include <gtest/gtest.h>

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

TEST(TurnPolicy, GivesTheDeviceToTheOneThatIsMostBehind) {
  EXPECT_EQ(choose({view(TurnState::wants, 2.0), view(TurnState::wants, 1.99)}), Places{1});
  EXPECT_EQ(choose({view(TurnState::wants, 2.0), view(TurnState::idle, 1.0)}), Places{0});
  EXPECT_EQ(choose({view(TurnState::wants, 2.0), view(TurnState::holds, 3.0)}), Places{});
  EXPECT_EQ(choose({}), Places{});
}

TEST(TurnPolicy, LetsTheOneThatHasJustComputedGoOnForASlice) {
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

TEST(TurnPolicy, KeepsAFreeDeviceForTheOneThatNeedsSeveralAndIsFirst) {
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

TEST(TurnPolicy, AnIdleCacheSavesUpNoCredit) {
  EXPECT_EQ(served_after_idle(1.0, 5.0), 5.0);
  EXPECT_EQ(served_after_idle(6.0, 5.0), 6.0);
}

// One device or two, steps of random lengths, caches that come and go: where all want it all the time, each
// gets its share of the time by weight within 10 %, over any window of 1,000 steps.
class Shares : public ::testing::TestWithParam<uint32_t> {};

TEST_P(Shares, FollowTheWeightsOverAnyThousandSteps) {
  std::mt19937 random(GetParam());
  const auto below = [&](uint32_t limit) { return static_cast<int>(random() % limit); };
  const size_t num_caches = 2 + static_cast<size_t>(below(4));
  std::vector<TurnView> caches(num_caches);
  std::vector<double> weights(num_caches);
  std::vector<double> typical(num_caches);
  for (size_t i = 0; i < num_caches; ++i) {
    caches[i] = view(TurnState::wants, 0.0);
    weights[i] = 0.5 + 0.5 * below(8);
    typical[i] = 1e-4 * (1 + below(40));
    caches[i].priority = static_cast<int32_t>(below(3));
  }
  std::vector<std::vector<double>> history;  // by step: the time of each cache so far
  std::vector<double> used(num_caches, 0.0);
  for (int step = 0; step < 6000; ++step) {
    const std::vector<int32_t> chosen = choose(caches, {0.02, 0.001});
    ASSERT_EQ(chosen.size(), 1U);
    const auto place = static_cast<size_t>(chosen.front());
    const double took = typical[place] * (0.5 + 0.01 * below(100));
    used[place] += took;
    caches[place].served += took / weights[place];
    for (TurnView& cache : caches) cache.state = TurnState::wants;
    caches[place].state = TurnState::returns;
    history.push_back(used);
  }
  double all_weights = 0.0;
  for (const double weight : weights) all_weights += weight;
  for (size_t start = 1000; start + 1000 < history.size(); start += 500) {
    double all = 0.0;
    for (size_t i = 0; i < num_caches; ++i) all += history[start + 1000][i] - history[start][i];
    for (size_t i = 0; i < num_caches; ++i) {
      const double share = (history[start + 1000][i] - history[start][i]) / all;
      EXPECT_NEAR(share, weights[i] / all_weights, 0.1 * weights[i] / all_weights + 0.02)
          << "seed " << GetParam() << ", cache " << i << ", from step " << start;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Shares, ::testing::Range(1U, 40U));

// Nobody starves, whatever the rest wants: with caches on one device and on both.
TEST(TurnPolicy, EveryCacheHasItsTurn) {
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
      ASSERT_LT(first, caches.size()) << "nobody computes";
      caches[first].served += next - now;
      now = next;
      caches[first].state = TurnState::wants;
    }
    for (const int turns : num_turns) EXPECT_GT(turns, 300) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire
