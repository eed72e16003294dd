#include "core/memory/residency.h"

#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

MemoryHolder holder(uint64_t bytes, bool is_reserved = false, std::string name = "a") {
  return {1, std::move(name), bytes, is_reserved};
}

TEST(Residency, WithoutABudgetAndWithoutAKnownDeviceEverythingFits) {
  EXPECT_TRUE(plan_residency({}, std::numeric_limits<uint64_t>::max()).fits);
}

TEST(Residency, ABudgetCountsHeldAndPromisedBytes) {
  const std::vector<MemoryHolder> holders = {holder(30), holder(20, true)};
  const MemoryState state{100, std::nullopt, holders};
  EXPECT_TRUE(plan_residency(state, 50).fits);
  EXPECT_FALSE(plan_residency(state, 51).fits);
  EXPECT_EQ(plan_residency(state, 51).left_bytes, 50U);
}

TEST(Residency, PromisedBytesAreSubtractedFromTheFreeBytes) {
  const std::vector<MemoryHolder> holders = {holder(30), holder(20, true)};
  EXPECT_EQ(plan_residency({0, 60, holders}, 1).left_bytes, 40U) << "what was taken is not free any more";
  EXPECT_EQ(plan_residency({100, 60, holders}, 1).left_bytes, 40U);
  EXPECT_EQ(plan_residency({60, 60, holders}, 1).left_bytes, 10U) << "the budget is the smaller";
  EXPECT_EQ(plan_residency({0, 10, holders}, 1).left_bytes, 0U) << "another process took some";
  EXPECT_EQ(plan_residency({40, std::nullopt, holders}, 0).left_bytes, 0U) << "the budget was lowered";
}

TEST(Residency, EvictableBytesFitLater) {
  std::vector<MemoryHolder> holders = {holder(30), holder(50), holder(10, true)};
  holders[1].is_evictable = true;
  EXPECT_FALSE(plan_residency({100, std::nullopt, holders}, 60).fits);
  EXPECT_TRUE(plan_residency({100, std::nullopt, holders}, 60).fits_later);
  EXPECT_FALSE(plan_residency({100, std::nullopt, holders}, 61).fits_later);
  EXPECT_TRUE(plan_residency({0, 15, holders}, 55).fits_later) << "the device gets back what it gave";
  EXPECT_FALSE(plan_residency({0, 15, holders}, 56).fits_later);
  holders[1].is_reserved = true;
  EXPECT_TRUE(plan_residency({0, 65, holders}, 55).fits_later) << "nothing was taken of the device yet";
  EXPECT_FALSE(plan_residency({0, 65, holders}, 56).fits_later);
  EXPECT_FALSE(plan_residency({70, std::nullopt, holders}, 31).fits_later) << "the budget was lowered";
}

TEST(Residency, TheLargestHoldersAreListed) {
  EXPECT_EQ(describe_holders({}), "no holder");
  std::vector<MemoryHolder> holders = {holder(1, false, "the weights of x"),
                                       holder(5, false, "the cache of x")};
  EXPECT_EQ(describe_holders(holders), "the cache of x (5 bytes), the weights of x (1 bytes)");
  for (uint64_t i = 0; i < 4; ++i) holders.push_back(holder(10 + i, false, "y"));
  EXPECT_EQ(describe_holders(holders), "y (13 bytes), y (12 bytes), y (11 bytes), y (10 bytes) and 2 others");
}

// Loads begin, allocate their bytes and end in random order, on a device that other processes use too.
// Promised memory is always available when it is allocated, and the budget is never exceeded by allocations
// made since it was set.
TEST(Residency, PromisedBytesCanBeAllocated) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t budget = seed % 3 == 0 ? 0 : 600 + random() % 500;
    const uint64_t total = 1000;
    uint64_t taken = 0;
    std::vector<MemoryHolder> holders;
    for (int event = 0; event < 20000; ++event) {
      const uint64_t needed = random() % 400;
      switch (random() % 3) {
        case 0:
          if (plan_residency({budget, total - taken, holders}, needed).fits)
            holders.push_back(holder(needed, true));
          break;
        case 1:
          for (MemoryHolder& of : holders) {
            if (!of.is_reserved) continue;
            of.is_reserved = false;
            taken += of.bytes;
            ASSERT_LE(taken, total) << "seed " << seed;
            break;
          }
          break;
        default: {
          if (holders.empty()) break;
          const size_t place = random() % holders.size();
          if (!holders[place].is_reserved) taken -= holders[place].bytes;
          holders.erase(holders.begin() + static_cast<std::ptrdiff_t>(place));
        }
      }
      uint64_t held = 0;
      for (const MemoryHolder& of : holders) held += of.bytes;
      if (budget > 0) {
        ASSERT_LE(held, budget);
      }
      ASSERT_LE(held, total);
    }
  }
}

EvictionCandidate candidate(uint64_t bytes, int32_t priority, int64_t idle_since) {
  return {bytes, priority, TimePoint(Duration(idle_since))};
}

TEST(Evictions, TheLowestPriorityAndThenTheLongestIdleAreEvictedFirst) {
  const std::vector<EvictionCandidate> models = {candidate(10, 5, 1), candidate(10, 0, 9),
                                                 candidate(10, 0, 3)};
  EXPECT_EQ(choose_evictions(models, 1), (std::vector<size_t>{2}));
  EXPECT_EQ(choose_evictions(models, 11), (std::vector<size_t>{2, 1}));
  EXPECT_EQ(choose_evictions(models, 30), (std::vector<size_t>{2, 1, 0}));
}

TEST(Evictions, NothingIsEvictedIfItWouldNotSuffice) {
  const std::vector<EvictionCandidate> models = {candidate(5, 0, 1), candidate(0, 0, 2), candidate(20, 0, 3)};
  EXPECT_TRUE(choose_evictions(models, 26).empty()) << "all together do not suffice";
  EXPECT_EQ(choose_evictions(models, 20), (std::vector<size_t>{2})) << "the first alone was too small";
  EXPECT_EQ(choose_evictions(models, 25), (std::vector<size_t>{0, 2}));
  EXPECT_TRUE(choose_evictions({}, 1).empty());
}

// Compares with all subsets: the chosen models suffice, each of them is needed, and the choice is empty only
// if no subset suffices.
TEST(Evictions, AreEnoughAndNoMore) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<EvictionCandidate> models;
    for (uint64_t i = random() % 7; i > 0; --i)
      models.push_back(candidate(random() % 20, static_cast<int32_t>(random() % 3), random() % 100));
    const uint64_t missing = 1 + random() % 60;
    uint64_t all = 0;
    for (const auto& model : models) all += model.bytes;
    const std::vector<size_t> chosen = choose_evictions(models, missing);
    uint64_t gained = 0;
    for (const size_t place : chosen) gained += models[place].bytes;
    ASSERT_EQ(chosen.empty(), all < missing);
    if (chosen.empty()) continue;
    ASSERT_GE(gained, missing);
    for (const size_t place : chosen) ASSERT_LT(gained - models[place].bytes, missing);
  }
}

}  // namespace
}  // namespace quire
