// Prefixes that leave a cache, through the C interface.
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
  // Tokens of the prompt that were found.
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

TEST_F(PrefixTest, ComeBackFromHostMemoryAndAreCounted) {
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

TEST_F(PrefixTest, CountInTheBudgetOfTheHost) {
  const OwnedCacheOptions wanted = options();
  quire_cache_options_set_prefix_bytes(wanted.get(), int64_t{1} << 40, nullptr);
  ASSERT_EQ(quire_runtime_set_memory_budget(world.runtime.get(), "cpu", 3, int64_t{1} << 32, report.out()),
            1);
  EXPECT_FALSE(open(wanted));
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(report.message().find("the kept prefixes of"), std::string::npos) << report.message();
}

TEST_F(PrefixTest, OfAFileComeToALaterCache) {
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

TEST_F(PrefixTest, ADirectoryThatIsNotThereIsRefusedByName) {
  const OwnedCacheOptions wanted = options();
  quire_cache_options_set_prefix_directory(wanted.get(), "/nowhere", 8, nullptr);
  EXPECT_FALSE(open(wanted));
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(report.message().find("/nowhere"), std::string::npos) << report.message();
}

}  // namespace
}  // namespace quire::testing
