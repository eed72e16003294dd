// Statistics of a cache as callers read them: as an object, and as a page of metrics.
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class StatsTest : public ::testing::Test {
 protected:
  // Runs a job to its end.
  void run(const std::string& prompt, int32_t max_new_tokens, const std::string& name_space = {}) {
    const OwnedRequest request = make_request(prompt, max_new_tokens);
    quire_job_request_set_namespace(request.get(), name_space.data(), name_space.size(), nullptr);
    const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
    ASSERT_TRUE(job) << report.message();
    collect(job.get());
  }
  OwnedStats stats() { return OwnedStats(quire_cache_stats(world.cache.get(), nullptr)); }
  std::string name_of(const OwnedStats& of, int32_t namespace_idx) {
    std::string name(64, '\0');
    const int64_t size =
        quire_stats_namespace_name(of.get(), namespace_idx, name.data(), name.size(), report.out());
    EXPECT_GE(size, 0) << report.message();
    return name.substr(0, static_cast<size_t>(size));
  }

  World world;
  Report report;
};

TEST_F(StatsTest, CountsJobsAndTokens) {
  run("Hello", 7);
  run("Hello", 7);
  const OwnedStats of = stats();
  EXPECT_EQ(quire_stats_jobs_submitted(of.get(), nullptr), 2);
  EXPECT_EQ(quire_stats_jobs_finished(of.get(), nullptr), 2);
  EXPECT_EQ(quire_stats_jobs_running(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_new_tokens(of.get(), nullptr), 14);
  EXPECT_EQ(quire_stats_prompt_tokens(of.get(), nullptr), 6)
      << "five tokens, then the one that is never reused";
  EXPECT_EQ(quire_stats_cached_tokens(of.get(), nullptr), 4);
  EXPECT_EQ(quire_stats_draft_tokens(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_accepted_draft_tokens(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_page_tokens(of.get(), nullptr), 4);
  EXPECT_GT(quire_stats_device_bytes(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_pages_free(of.get(), nullptr) + quire_stats_pages_cached(of.get(), nullptr) +
                quire_stats_pages_referenced(of.get(), nullptr),
            quire_stats_pages_total(of.get(), nullptr));
}

// Two shards, each with half of the heads of every layer: each has its part of the weights and of every page,
// and has its name in the metrics of the runtime.
TEST_F(StatsTest, ShardsAreNamed) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  const std::string path = embedded_model_path();
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  quire_model_options_set_num_shards(options.get(), 2, nullptr);
  const OwnedModel model(
      quire_model_load(world.runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  ASSERT_TRUE(model) << report.message();
  const OwnedCache cache = make_cache(model.get());
  const OwnedStats of(quire_cache_stats(cache.get(), nullptr));
  ASSERT_EQ(quire_model_num_shards(model.get(), nullptr), 2);
  ASSERT_EQ(quire_stats_num_shards(of.get(), nullptr), 2);
  std::string page(1 << 20, '\0');
  page.resize(static_cast<size_t>(
      quire_runtime_metrics(world.runtime.get(), page.data(), page.size(), report.out())));
  int64_t weights = 0;
  int64_t pages = 0;
  for (int32_t shard = 0; shard < 2; ++shard) {
    const int64_t of_weights = quire_model_shard_weight_bytes(model.get(), shard, nullptr);
    const int64_t of_pages = quire_stats_shard_device_bytes(of.get(), shard, nullptr);
    EXPECT_GT(of_weights, 0);
    EXPECT_GT(of_pages, 0);
    weights += of_weights;
    pages += of_pages;
    const std::string sample = "shard=\"" + std::to_string(shard) + "\"} ";
    EXPECT_NE(page.find("number=\"2\"," + sample + std::to_string(of_weights) + "\n"), std::string::npos);
    EXPECT_NE(page.find("\nquire_cache_shard_bytes{cache=\"2\"," + sample + std::to_string(of_pages) + "\n"),
              std::string::npos)
        << page;
  }
  EXPECT_EQ(quire_model_weight_bytes(model.get(), nullptr), weights);
  EXPECT_EQ(quire_stats_device_bytes(of.get(), nullptr), pages);
}

TEST_F(StatsTest, AnUnknownShardIsRefused) {
  const OwnedStats of = stats();
  EXPECT_EQ(quire_stats_num_shards(of.get(), nullptr), 1);
  for (const int32_t shard : {-1, 1}) {
    EXPECT_EQ(quire_stats_shard_device_bytes(of.get(), shard, report.out()), -1);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
    EXPECT_EQ(quire_model_shard_weight_bytes(world.model.get(), shard, report.out()), -1);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
  }
  const OwnedModel bare = load_model(world.runtime.get(), tiny_model_path(), QUIRE_MODEL_SCOPE_METADATA);
  EXPECT_EQ(quire_model_num_shards(bare.get(), nullptr), 1);
  EXPECT_EQ(quire_model_shard_weight_bytes(bare.get(), 0, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED) << report.message();
  const OwnedModel words = load_model(world.runtime.get(), tiny_model_path(), QUIRE_MODEL_SCOPE_TOKENIZER);
  EXPECT_EQ(quire_model_num_shards(words.get(), report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_UNSUPPORTED) << report.message();
}

// A cache on shards takes the memory that was planned without weights.
TEST_F(StatsTest, ACacheOnShardsIsPlannedWithoutWeights) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  const std::string path = embedded_model_path();
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  quire_model_options_set_num_shards(options.get(), 3, nullptr);
  std::vector<int64_t> bytes;
  for (const int32_t scope : {QUIRE_MODEL_SCOPE_FULL, QUIRE_MODEL_SCOPE_METADATA}) {
    quire_model_options_set_scope(options.get(), scope, nullptr);
    const OwnedModel model(
        quire_model_load(world.runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
    ASSERT_TRUE(model) << report.message();
    bytes.push_back(quire_cache_required_bytes(model.get(), nullptr, report.out()));
  }
  EXPECT_GT(bytes[0], 0);
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(StatsTest, ASnapshotDoesNotChange) {
  const OwnedStats before = stats();
  run("Hello", 3);
  EXPECT_EQ(quire_stats_jobs_finished(before.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_histogram_count(before.get(), QUIRE_HISTOGRAM_TIME_QUEUED, nullptr), 0);
}

TEST_F(StatsTest, HistogramsCountJobsAndSteps) {
  run("Hello", 7);
  run("Hello", 7);
  const OwnedStats of = stats();
  const auto count = [&](int32_t which) { return quire_stats_histogram_count(of.get(), which, nullptr); };
  const auto sum = [&](int32_t which) { return quire_stats_histogram_sum(of.get(), which, nullptr); };
  const auto quantile = [&](int32_t which, double q) {
    return quire_stats_histogram_quantile(of.get(), which, q, nullptr);
  };
  EXPECT_EQ(count(QUIRE_HISTOGRAM_TIME_QUEUED), 2);
  EXPECT_EQ(count(QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN), 2);
  EXPECT_GT(sum(QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN), 1000.0) << "nanoseconds";
  EXPECT_GE(quantile(QUIRE_HISTOGRAM_TIME_TO_FIRST_TOKEN, 0.99), 1e5);
  EXPECT_EQ(count(QUIRE_HISTOGRAM_TIME_BETWEEN_TOKENS), 12);
  EXPECT_EQ(count(QUIRE_HISTOGRAM_CACHED_SHARE), 2);
  EXPECT_DOUBLE_EQ(sum(QUIRE_HISTOGRAM_CACHED_SHARE), 0.8);
  EXPECT_EQ(quantile(QUIRE_HISTOGRAM_CACHED_SHARE, 0.5), 0.0);
  EXPECT_EQ(quantile(QUIRE_HISTOGRAM_CACHED_SHARE, 1.0), 0.8);
  EXPECT_EQ(count(QUIRE_HISTOGRAM_BATCH_FILL), quire_stats_steps(of.get(), nullptr));
  EXPECT_DOUBLE_EQ(sum(QUIRE_HISTOGRAM_BATCH_FILL), 14.0 / 16.0) << "one of sixteen jobs, fourteen times";
  EXPECT_EQ(sum(QUIRE_HISTOGRAM_STEP_SEQUENCES), 14.0);
  EXPECT_EQ(sum(QUIRE_HISTOGRAM_STEP_TOKENS), 5.0 + 6.0 + 1.0 + 6.0);
}

TEST_F(StatsTest, AnUnknownHistogramIsRefused) {
  const OwnedStats of = stats();
  for (const int32_t which : {-1, 7, INT32_MAX}) {
    EXPECT_EQ(quire_stats_histogram_count(of.get(), which, report.out()), -1);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
    EXPECT_TRUE(std::isnan(quire_stats_histogram_sum(of.get(), which, nullptr)));
    EXPECT_TRUE(std::isnan(quire_stats_histogram_quantile(of.get(), which, 0.5, nullptr)));
  }
  for (const double q : {-0.1, 1.1, std::nan("")}) {
    EXPECT_TRUE(std::isnan(quire_stats_histogram_quantile(of.get(), 0, q, report.out())));
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
  }
}

TEST_F(StatsTest, EachNamespaceHasItsOwnSnapshot) {
  run("Hello", 3, "a");
  run("world", 5, "b");
  OwnedStats of = stats();
  ASSERT_EQ(quire_stats_num_namespaces(of.get(), nullptr), 2);
  EXPECT_EQ(name_of(of, 0), "a");
  EXPECT_EQ(name_of(of, 1), "b");
  const OwnedStats space(quire_stats_namespace(of.get(), 1, report.out()));
  ASSERT_TRUE(space) << report.message();
  of.reset();
  EXPECT_EQ(quire_stats_new_tokens(space.get(), nullptr), 5) << "it is counted separately";
  EXPECT_EQ(quire_stats_jobs_finished(space.get(), nullptr), 1);
  EXPECT_EQ(quire_stats_histogram_count(space.get(), QUIRE_HISTOGRAM_TIME_QUEUED, nullptr), 1);
  EXPECT_EQ(quire_stats_pages_referenced(space.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_num_namespaces(space.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_namespace(space.get(), 0, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
}

TEST_F(StatsTest, AnUnknownNamespaceIsRefused) {
  run("Hello", 3);
  const OwnedStats of = stats();
  for (const int32_t which : {-1, 1, INT32_MAX}) {
    EXPECT_EQ(quire_stats_namespace(of.get(), which, report.out()), nullptr);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT) << report.message();
    EXPECT_EQ(quire_stats_namespace_name(of.get(), which, nullptr, 0, nullptr), -1);
  }
}

TEST_F(StatsTest, AppearInTheMetrics) {
  run("Hello", 7, "tenant");
  std::string page(1 << 20, '\0');
  const int64_t size =
      quire_cache_metrics(world.cache.get(), "small", 5, page.data(), page.size(), report.out());
  ASSERT_GT(size, 0) << report.message();
  page.resize(static_cast<size_t>(size));
  EXPECT_NE(page.find("\nquire_new_tokens_total{cache=\"small\"} 7\n"), std::string::npos) << page;
  EXPECT_NE(page.find("\nquire_namespace_new_tokens_total{cache=\"small\",namespace=\"tenant\"} 7\n"),
            std::string::npos)
      << page;
  EXPECT_EQ(quire_cache_metrics(world.cache.get(), "\xff", 1, nullptr, 0, report.out()), -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_ENCODING) << report.message();
}

}  // namespace
}  // namespace quire::testing
