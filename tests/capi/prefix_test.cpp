// Prefixes that are offloaded from a cache, through the C interface.
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"
#include "tests/support/temp_directory.h"

namespace quire::testing {
namespace {

class PrefixTest : public ::testing::Test {
 protected:
  static OwnedCacheOptions options() {
    OwnedCacheOptions made(quire_cache_options_create(nullptr));
    quire_cache_options_set_page_tokens(made.get(), 4, nullptr);
    quire_cache_options_set_max_tokens(made.get(), 64, nullptr);
    return made;
  }
  OwnedCache open(const OwnedCacheOptions& options) {
    return OwnedCache(quire_cache_create(world.model.get(), options.get(), report.out()));
  }
  // Runs a job and returns the number of cached prompt tokens.
  int64_t run(const OwnedCache& cache, const std::string& prompt) {
    const OwnedRequest request = make_request(prompt, 8);
    const OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
    EXPECT_TRUE(job) << report.message();
    collect(job.get());
    return quire_job_cached_tokens(job.get(), nullptr);
  }
  static OwnedStats stats(const OwnedCache& cache) {
    return OwnedStats(quire_cache_stats(cache.get(), nullptr));
  }

  World world;
  Report report;
  const std::string first = "a prompt of forty letters and some more,";
  const std::string second = "and another one of as many letters as it";
};

TEST_F(PrefixTest, ReturnFromHostMemoryAndAreCounted) {
  const OwnedCacheOptions wanted = options();
  ASSERT_EQ(quire_cache_options_set_prefix_bytes(wanted.get(), 16 << 20, nullptr), 1);
  const OwnedCache cache = open(wanted);
  ASSERT_TRUE(cache) << report.message();
  EXPECT_EQ(run(cache, first), 0);
  run(cache, second);
  EXPECT_GT(quire_stats_prefix_host_pages(stats(cache).get(), nullptr), 0);
  EXPECT_GT(quire_stats_prefix_host_bytes(stats(cache).get(), nullptr), 0);
  EXPECT_GE(run(cache, first), 36);
  EXPECT_GT(quire_stats_prefix_pages_restored(stats(cache).get(), nullptr), 0);
  EXPECT_EQ(quire_stats_prefix_file_pages(stats(cache).get(), nullptr), 0);
  EXPECT_EQ(quire_stats_prefix_files_refused(stats(cache).get(), nullptr), 0);
}

TEST_F(PrefixTest, EmitPageEvents) {
  const OwnedCacheOptions wanted = options();
  ASSERT_EQ(quire_cache_options_set_prefix_bytes(wanted.get(), 16 << 20, nullptr), 1);
  const OwnedCache cache = open(wanted);
  const OwnedQueue queue(quire_cache_create_queue(cache.get(), report.out()));
  ASSERT_EQ(quire_cache_follow_pages(cache.get(), queue.get(), 5, report.out()), 1) << report.message();
  run(cache, first);
  run(cache, second);
  ASSERT_EQ(quire_cache_close(cache.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1);
  std::map<int32_t, int64_t> num_changes;
  std::map<int32_t, int64_t> num_on_medium;
  std::set<uint64_t> known = {0};
  quire_event* taken = nullptr;
  for (int64_t number = 0;
       quire_queue_poll(queue.get(), int64_t{1'000'000'000}, nullptr, &taken, report.out()) == 1; ++number) {
    const OwnedEvent event(taken);
    ASSERT_EQ(quire_event_type(taken, nullptr), QUIRE_EVENT_PAGE);
    EXPECT_EQ(quire_event_user_data(taken, nullptr), 5U);
    EXPECT_EQ(quire_event_page_number(taken, nullptr), number);
    const int32_t change = quire_event_page_change(taken, nullptr);
    const int32_t medium = quire_event_page_medium(taken, nullptr);
    ++num_changes[change];
    if (change == QUIRE_PAGE_STORED) {
      ++num_on_medium[medium];
      EXPECT_EQ(quire_event_tokens(taken, nullptr, 0, nullptr), 4);
      EXPECT_EQ(known.count(quire_event_page_parent(taken, nullptr)), 1U);
      known.insert(quire_event_page_hash(taken, nullptr));
    }
    if (change == QUIRE_PAGE_CLEARED && number > 0) break;
  }
  EXPECT_EQ(num_changes[QUIRE_PAGE_CLEARED], 2) << "at the beginning and at the end";
  EXPECT_GT(num_changes[QUIRE_PAGE_REMOVED], 0);
  EXPECT_GE(num_on_medium[QUIRE_MEDIUM_DEVICE], 20);
  EXPECT_GT(num_on_medium[QUIRE_MEDIUM_HOST], 0);
}

TEST_F(PrefixTest, EmitPageEventsOnlyToQueuesOfTheirRuntime) {
  const OwnedCache cache = open(options());
  const World other;
  const OwnedQueue queue(quire_queue_create(other.runtime.get(), nullptr));
  EXPECT_EQ(quire_cache_follow_namespace_pages(cache.get(), "a", 1, queue.get(), 0, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(report.message().find("queue"), std::string::npos) << report.message();
}

TEST_F(PrefixTest, CountInTheBudgetOfTheHost) {
  const OwnedCacheOptions wanted = options();
  quire_cache_options_set_prefix_bytes(wanted.get(), int64_t{1} << 40, nullptr);
  ASSERT_EQ(quire_runtime_set_memory_budget(world.runtime.get(), "cpu", 3, int64_t{1} << 32, report.out()),
            1);
  EXPECT_FALSE(open(wanted));
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(report.message().find("the stored prefixes of"), std::string::npos) << report.message();
}

TEST_F(PrefixTest, StoredInAFileReachALaterCache) {
  const TempDirectory directory;
  const OwnedCacheOptions wanted = options();
  ASSERT_EQ(quire_cache_options_set_prefix_directory(wanted.get(), directory.path().data(),
                                                     directory.path().size(), nullptr),
            1);
  {
    const OwnedCache cache = open(wanted);
    ASSERT_TRUE(cache) << report.message();
    run(cache, first);
    ASSERT_EQ(quire_cache_close(cache.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1);
  }
  const OwnedCache later = open(wanted);
  EXPECT_GE(run(later, first), 36);
  EXPECT_GT(quire_stats_prefix_file_pages(stats(later).get(), nullptr), 0);
  EXPECT_GT(quire_stats_prefix_file_bytes(stats(later).get(), nullptr), 0);
}

TEST_F(PrefixTest, AMissingDirectoryIsRefusedByName) {
  const OwnedCacheOptions wanted = options();
  quire_cache_options_set_prefix_directory(wanted.get(), "/nowhere", 8, nullptr);
  EXPECT_FALSE(open(wanted));
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(report.message().find("/nowhere"), std::string::npos) << report.message();
}

}  // namespace
}  // namespace quire::testing
