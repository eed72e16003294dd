// Many short simulations, each with its own seed. A violation reports its seed; QUIRE_SIM_SEED runs that seed
// alone, QUIRE_SIM_EVENTS sets the total number of events.
#include "tests/simulation/simulation.h"

#include <cstdlib>
#include <iostream>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/case_stride.h"

namespace quire::testing {
namespace {

constexpr uint64_t kEventsPerSeed = 2000;
// Sanitizers take ten times as long.
constexpr uint64_t kNumEvents = kIsSanitized ? 20'000 : 1'000'000;
constexpr uint64_t kNumCancels = kIsSanitized ? 3'000 : 100'000;
constexpr uint64_t kNumReplays = kIsSanitized ? 3 : 20;
constexpr uint64_t kEventsWithAllCases = 1'000'000;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

uint64_t num_cancels(const SimulationStats& stats) {
  return std::accumulate(stats.cancels.begin(), stats.cancels.end(), uint64_t{0});
}

void print(const SimulationStats& total) {
  std::cout << total.events << " events, " << total.steps << " steps, " << total.jobs << " jobs, "
            << total.ended << " ended, " << num_cancels(total) << " cancels, " << total.rejected
            << " refused, " << total.preemptions << " preemptions, " << total.device_faults
            << " device faults, " << total.shard_faults << " between shards, " << total.failed_allocations
            << " failed allocations, " << total.lost_devices << " lost devices, " << total.closes
            << " closes, " << total.forks << " forks, " << total.rewinds << " rewinds, " << total.full_quotas
            << " full quotas, " << total.deduplicated << " pages deduplicated, " << total.cached_tokens
            << " tokens from the cache, " << total.pages_restored << " pages that came back, "
            << total.followed << " steps issued ahead, " << total.in_vain << " in vain, "
            << total.full_windows << " full windows, " << total.snapshots << " with snapshots, "
            << total.constrained << " constrained jobs, " << total.masked << " draws through a mask, "
            << total.guided << " jobs of two lanes, " << total.grown << " times grown, " << total.shrunk
            << " shrunk, " << total.candidates << " candidates, " << total.accepted << " of them accepted\n";
}

// A simulation that never meets the hard cases proves nothing.
void expect_hard_cases(const SimulationStats& total) {
  EXPECT_GT(total.preemptions, 100U);
  EXPECT_GT(total.device_faults, 100U);
  EXPECT_GT(total.shard_faults, 100U);
  EXPECT_GT(total.failed_allocations, 100U);
  EXPECT_GT(total.lost_devices, total.events / 50'000);
  EXPECT_GT(total.closes, 10U);
  EXPECT_GT(num_cancels(total), 100U);
  EXPECT_GT(total.forks, 100U);
  EXPECT_GT(total.rewinds, 100U);
  EXPECT_GT(total.full_quotas, 100U);
  EXPECT_GT(total.full_windows, 1000U);
  EXPECT_GT(total.snapshots, 1000U);
  EXPECT_GT(total.deduplicated, 10U);
  EXPECT_GT(total.cached_tokens, 1000U);
  EXPECT_GT(total.pages_restored, 100U);
  EXPECT_GT(total.followed, 1000U);
  EXPECT_GT(total.in_vain, 100U);
  EXPECT_GT(total.constrained, 1000U);
  EXPECT_GT(total.masked, 1000U);
  EXPECT_GT(total.guided, 1000U);
  EXPECT_GT(total.grown, total.events / 2000);
  EXPECT_GT(total.shrunk, total.events / 2000);
  EXPECT_GT(total.candidates, 1000U);
  EXPECT_GT(total.accepted, total.events / 1000);
  EXPECT_GT(total.candidates - total.accepted, total.events / 1000);
}

TEST(SimulationTest, EveryInvariantHoldsAfterEveryEvent) {
  const uint64_t only_seed = from_environment("QUIRE_SIM_SEED", 0);
  const uint64_t num_events = from_environment("QUIRE_SIM_EVENTS", kNumEvents);
  SimulationStats total;
  const uint64_t first = only_seed != 0 ? only_seed : from_environment("QUIRE_SIM_FIRST_SEED", 1);
  const uint64_t last = only_seed != 0 ? only_seed : first + num_events / kEventsPerSeed - 1;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Simulation simulation(seed);
    const std::string violation = simulation.run(kEventsPerSeed);
    ASSERT_EQ(violation, "") << "replay with QUIRE_SIM_SEED=" << seed;
    total.add(simulation.stats());
  }
  print(total);
  if (only_seed == 0 && num_events >= kEventsWithAllCases) expect_hard_cases(total);
}

// A cancelled job takes part in no step that starts after the call, and it ends and releases its pages with
// the next step: this is counted, not timed.
TEST(SimulationTest, ACancelTakesEffectWithinOneStep) {
  SimulationStats total;
  const auto num_live_cancels = [&] {
    return num_cancels(total) - total.cancels[static_cast<size_t>(JobState::finished)];
  };
  for (uint64_t seed = 1; num_live_cancels() < kNumCancels; ++seed) {
    Simulation simulation(seed, Mixture::cancels);
    const std::string violation = simulation.run(kEventsPerSeed);
    ASSERT_EQ(violation, "") << "seed " << seed;
    total.add(simulation.stats());
  }
  print(total);
  for (const JobState state : {JobState::queued, JobState::prefill, JobState::generating, JobState::paused}) {
    EXPECT_GT(total.cancels[static_cast<size_t>(state)], 100U) << "in state " << static_cast<int32_t>(state);
  }
}

TEST(SimulationTest, ASeedReplaysToTheLastEvent) {
  for (uint64_t seed = 1; seed <= kNumReplays; ++seed) {
    Simulation first(seed);
    Simulation second(seed);
    ASSERT_EQ(first.run(kEventsPerSeed), second.run(kEventsPerSeed));
    ASSERT_EQ(first.stats().digest, second.stats().digest) << "seed " << seed;
    ASSERT_EQ(first.stats().steps, second.stats().steps) << "seed " << seed;
  }
}

}  // namespace
}  // namespace quire::testing
