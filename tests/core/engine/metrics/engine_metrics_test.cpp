// Metrics of a cache on the fake device with a simulated clock, and their Prometheus page.
#include "core/engine/metrics/engine_metrics.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

class EngineMetricsTest : public ::testing::Test {
 protected:
  EngineMetricsTest() {
    options.clock = &clock;
    options.cache.start_thread = false;
  }
  void start() { engine = std::make_unique<FakeEngine>(options); }
  std::shared_ptr<Job> submit(int32_t first_token, int32_t num_prompt_tokens, int32_t max_new_tokens,
                              const std::string& name_space = {}) {
    JobRequest request;
    for (int32_t i = 0; i < num_prompt_tokens; ++i) request.prompt.push_back((first_token + i) % kVocab);
    request.max_new_tokens = max_new_tokens;
    request.sampling.temperature = 0.0F;
    request.name_space = name_space;
    jobs.push_back(engine->cache->submit(request));
    return jobs.back();
  }
  // Runs one step, which takes ten milliseconds.
  void step() {
    engine->cache->thread().run_once();
    clock.advance(std::chrono::milliseconds(10));
  }
  const NamespaceMetrics& of(const CacheMetrics& metrics, const std::string& name) {
    for (const NamespaceMetrics& space : metrics.name_spaces) {
      if (space.name == name) return space;
    }
    throw std::runtime_error("no such namespace: " + name);
  }

  SimulatedClock clock;
  FakeEngineOptions options;
  std::unique_ptr<FakeEngine> engine;
  std::vector<std::shared_ptr<Job>> jobs;  // destroyed jobs would be cancelled
};

TEST_F(EngineMetricsTest, TimesAreThoseOfTheClock) {
  start();
  const auto job = submit(1, 8, 5);
  clock.advance(std::chrono::seconds(3));
  for (int32_t i = 0; i < 5; ++i) step();
  ASSERT_EQ(job->state(), JobState::finished);
  const CacheMetrics metrics = engine->cache->metrics();
  EXPECT_EQ(metrics.jobs.time_queued.count(), 1U);
  EXPECT_DOUBLE_EQ(metrics.jobs.time_queued.sum(), 3.0);
  EXPECT_EQ(metrics.jobs.time_to_first_token.count(), 1U);
  EXPECT_DOUBLE_EQ(metrics.jobs.time_to_first_token.sum(), 3.0);
  EXPECT_EQ(metrics.jobs.time_between_tokens.count(), 4U);
  EXPECT_NEAR(metrics.jobs.time_between_tokens.sum(), 0.04, 1e-12);
}

TEST_F(EngineMetricsTest, EachNamespaceHasItsOwnFiguresAndTheyAddUp) {
  start();
  submit(1, 9, 5, "a");
  submit(20, 13, 7, "b");
  const auto third = submit(40, 5, 30, "b");
  step();
  CacheMetrics metrics = engine->cache->metrics();
  EXPECT_EQ(of(metrics, "b").counts.running_jobs, 2);
  EXPECT_EQ(of(metrics, "b").held_pages, 4 + 2) << "of four tokens each";
  third->cancel();
  engine->run_to_idle();
  metrics = engine->cache->metrics();
  EXPECT_EQ(of(metrics, "a").counts.new_tokens, 5U);
  EXPECT_EQ(of(metrics, "a").counts.prompt_tokens_computed, 9U);
  EXPECT_EQ(of(metrics, "b").counts.submitted_jobs, 2U);
  EXPECT_EQ(of(metrics, "b").counts.cancelled_jobs, 1U);
  EXPECT_EQ(of(metrics, "b").held_pages, 0);
  EXPECT_EQ(of(metrics, "b").histograms.time_to_first_token.count(), 2U);
  JobCounts sum;
  for (const NamespaceMetrics& space : metrics.name_spaces) {
    sum.submitted_jobs += space.counts.submitted_jobs;
    sum.finished_jobs += space.counts.finished_jobs;
    sum.new_tokens += space.counts.new_tokens;
    sum.prompt_tokens_computed += space.counts.prompt_tokens_computed;
    EXPECT_EQ(space.counts.running_jobs + space.counts.queued_jobs, 0) << space.name;
  }
  EXPECT_EQ(sum.submitted_jobs, metrics.stats.submitted_jobs);
  EXPECT_EQ(sum.finished_jobs, metrics.stats.finished_jobs);
  EXPECT_EQ(sum.new_tokens, metrics.stats.new_tokens);
  EXPECT_EQ(sum.prompt_tokens_computed, metrics.stats.prompt_tokens_computed);
}

TEST_F(EngineMetricsTest, EverySubmittedJobIsQueuedRunningOrFinished) {
  options.limits.num_pages = 24;
  options.limits.max_sequences = 3;
  start();
  for (int32_t i = 0; i < 9; ++i) submit(7 * i, 20, 30, i % 2 == 0 ? "a" : "");
  for (int32_t steps = 0; steps < 400; ++steps) {
    step();
    const CacheMetrics metrics = engine->cache->metrics();
    const auto check = [](const JobCounts& counts) {
      EXPECT_EQ(static_cast<uint64_t>(counts.queued_jobs + counts.running_jobs) + counts.finished_jobs,
                counts.submitted_jobs);
    };
    check(metrics.stats);
    for (const NamespaceMetrics& space : metrics.name_spaces) check(space.counts);
  }
  EXPECT_EQ(engine->cache->stats().finished_jobs, 9U);
  EXPECT_GT(engine->cache->stats().preemptions, 0U) << "pages for three jobs were never scarce";
}

TEST_F(EngineMetricsTest, TheCachedShareIsRelativeToThePrompt) {
  start();
  submit(1, 41, 2);
  engine->run_to_idle();
  submit(1, 41, 2);
  engine->run_to_idle();
  const Histogram& share = engine->cache->metrics().jobs.cached_share;
  EXPECT_EQ(share.count(), 2U);
  EXPECT_NEAR(share.sum(), 40.0 / 41.0, 1e-12);
}

TEST_F(EngineMetricsTest, BatchFillIsTheShareOfLanesInUse) {
  start();
  for (int32_t i = 0; i < 4; ++i) submit(9 * i, 3, 1);
  step();
  const StepHistograms& steps = engine->cache->metrics().steps;
  EXPECT_EQ(steps.batch_fill.count(), 1U);
  EXPECT_DOUBLE_EQ(steps.batch_fill.sum(), 0.5) << "four of eight";
  EXPECT_DOUBLE_EQ(steps.sequences.sum(), 4.0);
  EXPECT_DOUBLE_EQ(steps.tokens.sum(), 12.0);
}

TEST_F(EngineMetricsTest, UnusedNamespacesDoNotAccumulate) {
  start();
  const int32_t num_jobs = static_cast<int32_t>(MetricsStore::kMaxNamespaces) + 10;
  for (int32_t i = 0; i < num_jobs; ++i) {
    submit(i, 2, 1, "tenant " + std::to_string(i));
    engine->run_to_idle();
  }
  const CacheMetrics metrics = engine->cache->metrics();
  EXPECT_EQ(metrics.name_spaces.size(), MetricsStore::kMaxNamespaces);
  EXPECT_EQ(metrics.untracked_jobs, 10U);
  EXPECT_EQ(metrics.stats.finished_jobs, static_cast<uint64_t>(num_jobs));
}

// Checks the grammar of the format line by line: each family is opened once with HELP and TYPE, its samples
// follow directly and differ in their labels, and bucket counts increase up to the total count.
class PageCheck {
 public:
  explicit PageCheck(const std::string& page) {
    EXPECT_TRUE(page.empty() || page.back() == '\n');
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) read(line);
  }
  size_t num_families() const { return families_.size(); }
  const std::map<std::string, std::string>& samples() const { return samples_; }

 private:
  void read(const std::string& line) {
    static const std::string name = "[a-z_:][a-z0-9_:]*";
    static const std::string label = "[a-z_]+=\"(?:[^\"\\\\\\n]|\\\\[\\\\\"n])*\"";
    static const std::regex help("# HELP (" + name + ") [^\\n]+");
    static const std::regex type("# TYPE (" + name + ") (counter|gauge|histogram)");
    static const std::regex sample("((" + name + ")\\{" + label + "(?:," + label + ")*\\}) ([0-9.e+-]+)");
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_TRUE(families_.insert(match[1]).second) << "opened twice: " << line;
      open_ = match[1];
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], open_) << line;
      type_ = match[2];
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_EQ(family_of(match[2]), open_) << line;
      EXPECT_TRUE(samples_.emplace(match[1], match[3]).second) << "twice: " << line;
      if (type_ == "counter") {
        EXPECT_TRUE(open_.ends_with("_total")) << line;
      }
      check_bucket(match[1], match[2], std::stod(match[3]));
    } else {
      ADD_FAILURE() << "not a line of the format: " << line;
    }
  }
  std::string family_of(const std::string& name) const {
    if (type_ != "histogram") return name;
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (name == open_ + suffix) return open_;
    }
    return name;
  }
  void check_bucket(const std::string& series, const std::string& name, double value) {
    if (type_ != "histogram") return;
    if (name.ends_with("_bucket")) {
      EXPECT_GE(value, last_bucket_) << series;
      last_bucket_ = value;
    } else if (name.ends_with("_count")) {
      EXPECT_EQ(value, last_bucket_) << series;
      last_bucket_ = 0.0;
    }
  }

  std::set<std::string> families_;
  std::map<std::string, std::string> samples_;
  std::string open_;
  std::string type_;
  double last_bucket_ = 0.0;
};

TEST_F(EngineMetricsTest, ThePageIsValidForAnyNames) {
  start();
  PageCheck(engine->cache->metrics_text("empty"));
  for (const std::string name :
       {"", "a", "quo\"te", "back\\slash", "line\nbreak", "\xff\xfe", "gr\xc3\xbc\xc3\x9f"})
    submit(3, 10, 4, name);
  engine->run_to_idle();
  const PageCheck page(engine->cache->metrics_text("the \"cache\"\n"));
  EXPECT_GT(page.num_families(), 30U);
  const std::string cache = "cache=\"the \\\"cache\\\"\\n\"";
  EXPECT_EQ(page.samples().at("quire_jobs_finished_total{" + cache + "}"), "7");
  EXPECT_EQ(page.samples().at("quire_namespace_new_tokens_total{" + cache + ",namespace=\"quo\\\"te\"}"),
            "4");
  EXPECT_EQ(page.samples().at("quire_namespace_new_tokens_total{" + cache + ",namespace=\"\\\\xff\\\\xfe\"}"),
            "4");
}

// Monitoring systems store data under these names: removing or changing one breaks them.
TEST_F(EngineMetricsTest, NamesNeverChange) {
  start();
  submit(1, 3, 1);
  engine->run_to_idle();
  std::set<std::string> names;
  std::istringstream lines(engine->cache->metrics_text("x"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) names.insert(line.substr(7));
  }
  const std::set<std::string> of_jobs = {"jobs_submitted_total counter",
                                         "jobs_finished_total counter",
                                         "jobs_failed_total counter",
                                         "jobs_cancelled_total counter",
                                         "jobs_queued gauge",
                                         "jobs_running gauge",
                                         "preemptions_total counter",
                                         "prompt_tokens_computed_total counter",
                                         "prompt_tokens_cached_total counter",
                                         "new_tokens_total counter",
                                         "draft_tokens_total counter",
                                         "draft_tokens_accepted_total counter",
                                         "draft_tokens_accepted_by_position_total counter",
                                         "time_queued_seconds histogram",
                                         "time_to_first_token_seconds histogram",
                                         "time_between_tokens_seconds histogram",
                                         "cached_share histogram"};
  std::set<std::string> expected = {"quire_pages gauge",
                                    "quire_pages_free gauge",
                                    "quire_pages_cached gauge",
                                    "quire_pages_referenced gauge",
                                    "quire_pages_pinned gauge",
                                    "quire_pages_deduplicated_total counter",
                                    "quire_pages_evicted_total counter",
                                    "quire_prefix_host_pages gauge",
                                    "quire_prefix_host_bytes gauge",
                                    "quire_prefix_file_pages gauge",
                                    "quire_prefix_file_bytes gauge",
                                    "quire_prefix_pages_restored_total counter",
                                    "quire_prefix_files_refused_total counter",
                                    "quire_cache_shard_bytes gauge",
                                    "quire_engine_failed gauge",
                                    "quire_steps_total counter",
                                    "quire_card_expert_hits_total counter",
                                    "quire_card_expert_misses_total counter",
                                    "quire_batch_fill histogram",
                                    "quire_step_sequences histogram",
                                    "quire_step_tokens histogram",
                                    "quire_namespace_pages_held gauge",
                                    "quire_namespace_pages_pinned gauge",
                                    "quire_untracked_jobs_total counter"};
  for (const std::string& name : of_jobs) {
    expected.insert("quire_" + name);
    expected.insert("quire_namespace_" + name);
  }
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace quire::testing
