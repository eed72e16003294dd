// Soak test: well-behaved and misbehaving clients on the embedded model, through the C interface. Every few
// seconds all of them stop, and then no page, handle, thread, descriptor or memory may remain in use.
// QUIRE_SOAK_SECONDS sets the duration; the default is 30 seconds.
#include <cstdlib>
#include <thread>

#include "tests/stress/poisoned_model.h"
#include "tests/stress/process_census.h"
#include "tests/stress/soak_load.h"

namespace quire::testing {
namespace {

constexpr uint32_t kNumClients = 8;
constexpr int kJobsPerRound = 24;         // of each client
constexpr uint32_t kNumWarmUpRounds = 5;  // until reused memory has reached its final size
// Blocks by which tables may still grow, however long the test runs. Every round has some twenty jobs of the
// rarest kind, so a leak of one block per job is detected after a few rounds.
constexpr int64_t kMostNewBlocks = 60;
constexpr int64_t kMostNewBytes = int64_t{24} << 20;  // resident: the allocator keeps some for itself

std::chrono::seconds soak_time() {
  const char* const value = std::getenv("QUIRE_SOAK_SECONDS");
  return std::chrono::seconds(value == nullptr ? 30 : std::atoi(value));
}

// Makes a cache with too few pages for eight jobs at their longest, so that some are preempted and many pages
// are evicted.
OwnedCache make_small_cache(quire_model* model) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_page_tokens(options.get(), 16, nullptr);
  quire_cache_options_set_max_tokens(options.get(), 1536, nullptr);
  quire_cache_options_set_max_seq_len(options.get(), 512, nullptr);
  quire_cache_options_set_max_batch_size(options.get(), 8, nullptr);
  quire_cache_options_set_max_chunk_tokens(options.get(), 96, nullptr);
  return OwnedCache(quire_cache_create(model, options.get(), nullptr));
}

class SoakTest : public ::testing::Test {
 protected:
  void run_round(uint32_t round) {
    std::vector<std::thread> clients;
    for (uint32_t i = 0; i < kNumClients; ++i)
      clients.emplace_back([&, i] { load.run_client(round * kNumClients + i, kJobsPerRound); });
    for (std::thread& client : clients) client.join();
    // The scheduler answers queries between two steps: after the second answer it has released all freed
    // jobs.
    for (int i = 0; i < 2; ++i) {
      EXPECT_GE(quire_cache_query(cache.get(), query.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 0);
    }
  }

  void expect_no_pages_held() {
    const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
    EXPECT_EQ(quire_stats_jobs_submitted(stats.get(), nullptr),
              quire_stats_jobs_finished(stats.get(), nullptr));
    EXPECT_EQ(quire_stats_pages_referenced(stats.get(), nullptr), 0);
    EXPECT_EQ(quire_stats_pages_free(stats.get(), nullptr) + quire_stats_pages_cached(stats.get(), nullptr),
              quire_stats_pages_total(stats.get(), nullptr));
  }

  void expect_nothing_more(const ProcessCensus& before, const ProcessCensus& now) {
    EXPECT_EQ(now.threads, before.threads);
    EXPECT_EQ(now.descriptors, before.descriptors);
    EXPECT_LE(now.blocks, before.blocks + kMostNewBlocks);
    EXPECT_LE(now.resident_bytes, before.resident_bytes + kMostNewBytes);
  }

  void report(uint32_t num_rounds, const ProcessCensus& before, const ProcessCensus& now) {
    const SoakCounts& counts = load.counts();
    const auto record = [](const char* name, int64_t value) {
      RecordProperty(name, std::to_string(value));
      std::printf("%s %lld\n", name, static_cast<long long>(value));
    };
    record("rounds", num_rounds);
    record("jobs", counts.total());
    record("checked", counts.checked);
    record("cancelled", counts.cancelled);
    record("abandoned", counts.abandoned);
    record("invalid", counts.invalid);
    record("poisoned", counts.poisoned);
    record("disturbed", counts.disturbed);
    record("new_blocks", now.blocks - before.blocks);
    record("new_resident_bytes", now.resident_bytes - before.resident_bytes);
    const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
    record("preemptions", quire_stats_preemptions(stats.get(), nullptr));
    record("pages_evicted", quire_stats_pages_evicted(stats.get(), nullptr));
    EXPECT_GT(quire_stats_preemptions(stats.get(), nullptr), 0) << "pages were never scarce";
    EXPECT_GT(counts.poisoned, 0);
  }

  PoisonedModel files;
  OwnedRuntime runtime = make_runtime();
  OwnedModel model = load_model(runtime.get(), files.path());
  OwnedCache cache = make_small_cache(model.get());
  OwnedRequest query = make_request("a", 1);
  SoakLoad load{runtime.get(), model.get(), cache.get(), PoisonedModel::kPoison};
};

TEST_F(SoakTest, NothingLeaks) {
  const auto end = std::chrono::steady_clock::now() + soak_time();
  const int64_t num_handles = num_live_handles();
  ProcessCensus before;
  ProcessCensus now;
  uint32_t round = 0;
  for (; std::chrono::steady_clock::now() < end || round <= kNumWarmUpRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    run_round(round);
    expect_no_pages_held();
    EXPECT_EQ(num_live_handles(), num_handles);
    now = take_census();
    if (round < kNumWarmUpRounds) before = now;
    expect_nothing_more(before, now);
    if (HasFailure()) break;
  }
  report(round, before, now);
}

}  // namespace
}  // namespace quire::testing
