// Which experts get the slots of a card: compared with a plain implementation over random steps.
#include "core/layers/expert_slots.h"

#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

// Exchanges one expert after the other: the most chosen one outside gets a free slot, or that of the least
// chosen one inside.
class PlainSlots {
 public:
  PlainSlots(int32_t num_experts, int32_t num_slots)
      : counts(static_cast<size_t>(num_experts)), num_slots_(static_cast<size_t>(num_slots)) {}

  void count(const std::vector<int32_t>& chosen) {
    for (const int32_t expert : chosen) ++counts[static_cast<size_t>(expert)];
    while (std::accumulate(counts.begin(), counts.end(), uint64_t{0}) > 16384)
      for (uint64_t& count : counts) count /= 2;
  }
  void exchange(int32_t most) {
    std::set<size_t> newcomers;
    for (int32_t i = 0; i < most; ++i) {
      const size_t best = best_outside();
      if (best == counts.size() || counts[best] == 0) return;
      if (inside.size() == num_slots_) {
        const size_t worst = worst_inside(newcomers);
        if (worst == counts.size() || 4 * counts[best] <= 5 * counts[worst] + 32) return;
        inside.erase(worst);
      }
      inside.insert(best);
      newcomers.insert(best);
    }
  }

  std::vector<uint64_t> counts;
  std::set<size_t> inside;

 private:
  size_t best_outside() const {
    size_t best = counts.size();
    for (size_t e = 0; e < counts.size(); ++e)
      if (inside.count(e) == 0 && (best == counts.size() || counts[e] > counts[best])) best = e;
    return best;
  }
  size_t worst_inside(const std::set<size_t>& newcomers) const {
    size_t worst = counts.size();
    for (const size_t e : inside)
      if (newcomers.count(e) == 0 && (worst == counts.size() || counts[e] < counts[worst])) worst = e;
    return worst;
  }

  const size_t num_slots_;
};

std::set<size_t> with_slots(const ExpertSlots& slots, int32_t layer) {
  std::set<size_t> experts;
  const auto places = slots.places(layer);
  for (size_t e = 0; e < places.size(); ++e)
    if (places[e].slot >= 0) experts.insert(e);
  return experts;
}

// Every slot belongs to one layer and has at most one expert.
void expect_sound(const ExpertSlots& slots, int32_t num_layers, int32_t num_slots) {
  std::set<int32_t> taken;
  int32_t last_of_layer = -1;
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    const int32_t before = last_of_layer;
    for (const kernels::ExpertPlace& place : slots.places(layer)) {
      EXPECT_TRUE(place.slot >= 0 || !place.is_filled);
      if (place.slot < 0) continue;
      EXPECT_LT(place.slot, num_slots);
      EXPECT_GT(place.slot, before) << "a slot of the layer before";
      EXPECT_TRUE(taken.insert(place.slot).second) << "two experts in slot " << place.slot;
      last_of_layer = std::max(last_of_layer, place.slot);
    }
  }
}

// Experts that tokens choose: a few much more often than others, which change now and then.
std::vector<int32_t> choose(int32_t num_experts, int32_t rows, int32_t favourite, std::mt19937& random) {
  std::geometric_distribution<int32_t> skewed(0.15);
  std::vector<int32_t> chosen;
  for (int32_t r = 0; r < rows; ++r) chosen.push_back((favourite + skewed(random)) % num_experts);
  return chosen;
}

TEST(ExpertSlots, AreGivenAsByThePlainImplementation) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto any = [&](int32_t most) {
      return static_cast<int32_t>(random() % static_cast<uint32_t>(most));
    };
    const int32_t num_layers = 1 + any(4), num_experts = 1 + any(40);
    const int32_t num_slots = any(num_layers * num_experts + 1);
    ExpertSlots slots(num_layers, num_experts, num_slots);
    std::vector<PlainSlots> plain;
    for (int32_t layer = 0; layer < num_layers; ++layer)
      plain.emplace_back(num_experts, num_slots * (layer + 1) / num_layers - num_slots * layer / num_layers);
    int32_t favourite = 0;
    for (int32_t step = 0; step < 200; ++step) {
      if (any(50) == 0) favourite = any(num_experts);
      if (any(97) == 0) {
        slots.clear();
        for (PlainSlots& of_layer : plain) of_layer.inside.clear();
      }
      for (int32_t layer = 0; layer < num_layers; ++layer) {
        PlainSlots& expected = plain[static_cast<size_t>(layer)];
        const auto chosen = choose(num_experts, any(20) == 0 ? 40000 : 1 + any(40), favourite, random);
        slots.count(layer, chosen);
        expected.count(chosen);
        const int32_t most = any(5);
        const bool lacks = slots.exchange(layer, most);
        expected.exchange(most);
        ASSERT_EQ(with_slots(slots, layer), expected.inside) << "step " << step;
        const auto places = slots.places(layer);
        EXPECT_EQ(lacks, std::any_of(places.begin(), places.end(), [](const kernels::ExpertPlace& place) {
                    return place.slot >= 0 && !place.is_filled;
                  }));
        if (any(3) > 0) slots.mark_filled(layer);
      }
      expect_sound(slots, num_layers, num_slots);
    }
  }
}

TEST(ExpertSlots, CountChoicesByTheExpertsThatAreThere) {
  ExpertSlots slots(1, 4, 2);
  slots.count(0, std::vector<int32_t>{0, 0, 1, 2});
  EXPECT_EQ(slots.use().misses, 4U);
  EXPECT_TRUE(slots.exchange(0, 4));
  EXPECT_EQ(with_slots(slots, 0), (std::set<size_t>{0, 1}));
  slots.count(0, std::vector<int32_t>{0});
  EXPECT_EQ(slots.use().misses, 5U) << "it has a slot, but is not there";
  slots.mark_filled(0);
  slots.count(0, std::vector<int32_t>{0, 1, 3});
  EXPECT_EQ(slots.use().hits, 2U);
  EXPECT_EQ(slots.use().misses, 6U);
  EXPECT_FALSE(slots.exchange(0, 4)) << "nothing has changed";
}

TEST(ExpertSlots, ANewcomerMustBeAheadByMoreThanChance) {
  ExpertSlots slots(1, 2, 1);
  slots.count(0, std::vector<int32_t>(100, 0));
  slots.exchange(0, 1);
  slots.mark_filled(0);
  slots.count(0, std::vector<int32_t>(133, 1));
  EXPECT_FALSE(slots.exchange(0, 1)) << "133 choices against 100";
  slots.count(0, std::vector<int32_t>{1});
  EXPECT_TRUE(slots.exchange(0, 1));
  EXPECT_EQ(with_slots(slots, 0), std::set<size_t>{1});
}

TEST(ExpertSlots, LayersTakeTurns) {
  ExpertSlots slots(3, 1, 3);
  std::vector<int32_t> turns(3);
  for (int32_t step = 0; step < 9; ++step) {
    slots.begin_step();
    int32_t num_turns = 0;
    for (int32_t layer = 0; layer < 3; ++layer)
      if (slots.is_turn_of(layer)) ++turns[static_cast<size_t>(layer)], ++num_turns;
    EXPECT_EQ(num_turns, 1);
  }
  EXPECT_EQ(turns, (std::vector<int32_t>{3, 3, 3}));
}

// What many choose counts more than what many have chosen.
TEST(ExpertSlots, OldChoicesFade) {
  ExpertSlots slots(1, 3, 1);
  slots.count(0, std::vector<int32_t>(1000000, 0));
  slots.exchange(0, 1);
  slots.count(0, std::vector<int32_t>(30000, 2));
  EXPECT_TRUE(slots.exchange(0, 1));
  EXPECT_EQ(with_slots(slots, 0), std::set<size_t>{2});
}

}  // namespace
}  // namespace quire::testing
