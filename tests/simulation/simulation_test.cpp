// Many short lives, each from its own seed. A violation names its seed; QUIRE_SIM_SEED runs that one alone,
// QUIRE_SIM_EVENTS sets how many events run in all.
#include "tests/simulation/simulation.h"

#include <cstdlib>
#include <iostream>

#include <gtest/gtest.h>

namespace quire::testing {
namespace {

constexpr uint64_t kEventsPerSeed = 2000;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(SimulationTest, EveryInvariantHoldsBehindEveryEvent) {
  const uint64_t only_seed = from_environment("QUIRE_SIM_SEED", 0);
  const uint64_t num_events = from_environment("QUIRE_SIM_EVENTS", 1'000'000);
  SimulationStats total;
  const uint64_t first = only_seed != 0 ? only_seed : 1;
  const uint64_t last = only_seed != 0 ? only_seed : num_events / kEventsPerSeed;
  for (uint64_t seed = first; seed <= last; ++seed) {
    Simulation simulation(seed);
    const std::string violation = simulation.run(kEventsPerSeed);
    ASSERT_EQ(violation, "") << "replay with QUIRE_SIM_SEED=" << seed;
    const SimulationStats& stats = simulation.stats();
    total.events += stats.events;
    total.jobs += stats.jobs;
    total.finished += stats.finished;
    total.cancels += stats.cancels;
    total.rejected += stats.rejected;
    total.preemptions += stats.preemptions;
    total.faults += stats.faults;
    total.forks += stats.forks;
    total.rewinds += stats.rewinds;
    total.deduplicated += stats.deduplicated;
    total.cached_tokens += stats.cached_tokens;
  }
  std::cout << total.events << " events, " << total.jobs << " jobs, " << total.finished << " finished, "
            << total.cancels << " cancels, " << total.rejected << " refused, " << total.preemptions
            << " preemptions, " << total.faults << " faults, " << total.forks << " forks, " << total.rewinds
            << " rewinds, " << total.deduplicated << " pages deduplicated, " << total.cached_tokens
            << " tokens from the cache\n";
  // A simulation that never meets the hard cases proves nothing.
  if (only_seed != 0 || num_events < 100'000) return;
  EXPECT_GT(total.preemptions, 100U);
  EXPECT_GT(total.faults, 100U);
  EXPECT_GT(total.forks, 100U);
  EXPECT_GT(total.rewinds, 100U);
  EXPECT_GT(total.deduplicated, 10U);
  EXPECT_GT(total.cached_tokens, 1000U);
}

}  // namespace
}  // namespace quire::testing
