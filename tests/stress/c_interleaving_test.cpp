// Runs every pair of functions of the C interface at the same time, on the same handles, while the engine's
// thread runs, including the release of a handle that the other call uses. In any order, each call returns a
// code that one of the two calls explains, each job ends once, nothing leaks, and a later job generates the
// same text as alone.
#include <iostream>
#include <set>
#include <string>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "capi/src/guard.h"
#include "capi/src/handle_table.h"
#include "tests/stress/c_world.h"
#include "tests/support/sync_points.h"

namespace quire::testing {
namespace {

// More than 10,000 schedules in total. Sanitizers take ten times as long.
#ifdef QUIRE_SANITIZED
constexpr int32_t kSchedulesPerPair = 1;
#else
constexpr int32_t kSchedulesPerPair = 4;
#endif

class CInterleavingTest : public ::testing::Test {
 protected:
  CInterleavingTest() { capi::set_entry_hook(pass_sync_point); }
  ~CInterleavingTest() override { capi::set_entry_hook(nullptr); }

  void run_schedule(const CEntryPoint& one, const CEntryPoint& other, uint64_t seed) {
    const std::string name = fmt::format("{} beside {}, seed {}", one.name, other.name, seed);
    SCOPED_TRACE(name);
    const int64_t num_handles = capi::HandleTable::instance().num_live_objects();
    {
      CWorld world(roots_, one.effects | other.effects);
      run_both(world, one, other, seed, name);
      world.finish(roots_);
    }
    EXPECT_EQ(capi::HandleTable::instance().num_live_objects(), num_handles);
  }

  std::set<uint64_t> orders;  // orders of sync points

 private:
  void run_both(CWorld& world, const CEntryPoint& one, const CEntryPoint& other, uint64_t seed,
                const std::string& name) {
    Schedule schedule(seed);
    std::atomic<int32_t> num_ready{0};
    const auto run = [&](const CEntryPoint& entry, int32_t which) {
      schedule.enter(which);
      ++num_ready;
      while (num_ready < 2) std::this_thread::yield();
      entry.call(world, Calls(world, entry.name));
      schedule.leave();
    };
    std::thread second([&] {
      SCOPED_TRACE(name);
      run(other, 1);
    });
    run(one, 0);
    second.join();
    orders.insert(Schedule::order());
  }

  const Roots roots_;
};

TEST_F(CInterleavingTest, EveryPairOfEntryPoints) {
  const std::vector<CEntryPoint>& entries = c_entry_points();
  uint64_t seed = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t j = i; j < entries.size(); ++j) {
      for (int32_t n = 0; n < kSchedulesPerPair; ++n) {
        run_schedule(entries[i], entries[j], ++seed);
        if (HasFailure()) return;
      }
    }
  }
  std::cout << entries.size() << " entries, " << seed << " schedules, " << orders.size() << " orders\n";
}

}  // namespace
}  // namespace quire::testing
