// Results that callers combine from events, codes and waits without guessing: ids, positions, rewinds, ends.
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class InterfaceTest : public ::testing::Test {
 protected:
  OwnedJob submit(const OwnedRequest& request) {
    OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
    EXPECT_TRUE(job) << report.message();
    return job;
  }
  int32_t code_of_submit(const OwnedRequest& request) {
    const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), report.out()));
    EXPECT_FALSE(job);
    return report.code();
  }

  World world;
  Report report;
};

TEST_F(InterfaceTest, AWaitDistinguishesTimeoutEndAndCancel) {
  const OwnedCancel cancel(quire_cancel_create(nullptr));
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  quire_event* event = nullptr;
  EXPECT_EQ(quire_queue_poll(queue.get(), 1000, nullptr, &event, report.out()), QUIRE_WAIT_TIMEOUT);
  const OwnedJob job = submit(make_request("Hello", 2000));
  EXPECT_EQ(quire_job_wait(job.get(), 1000, nullptr, report.out()), QUIRE_WAIT_TIMEOUT);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    quire_cancel_trigger(cancel.get(), nullptr);
  });
  EXPECT_EQ(quire_queue_poll(queue.get(), QUIRE_WAIT_FOREVER, cancel.get(), &event, report.out()),
            QUIRE_WAIT_CANCELLED);
  other.join();
  EXPECT_EQ(event, nullptr);
  EXPECT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, cancel.get(), report.out()), QUIRE_WAIT_CANCELLED)
      << "the wait is over, the job is not";
  quire_event* events[4] = {};
  EXPECT_GT(quire_job_drain(job.get(), QUIRE_WAIT_FOREVER, nullptr, events, 4, report.out()), 0);
  for (quire_event* const taken : events) quire_event_free(taken, nullptr);
  EXPECT_EQ(quire_job_cancel(job.get(), nullptr), 1);
  EXPECT_EQ(collect(job.get()).finish_reason, QUIRE_FINISH_CANCELLED);
  EXPECT_EQ(quire_job_poll(job.get(), QUIRE_WAIT_FOREVER, nullptr, &event, report.out()), QUIRE_WAIT_END);
  EXPECT_EQ(quire_job_drain(job.get(), 0, nullptr, events, 4, report.out()), QUIRE_WAIT_END);
  EXPECT_EQ(quire_job_poll(job.get(), 0, nullptr, nullptr, report.out()), QUIRE_WAIT_FAILED);
  EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(quire_cache_close(world.cache.get(), 0, nullptr, report.out()) < 0, false);
  EXPECT_EQ(quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()), 1);
}

TEST_F(InterfaceTest, ALoadWaitsByTheSameRule) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  const std::string& path = tiny_model_path();
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  EXPECT_EQ(quire_model_load(world.runtime.get(), options.get(), 0, nullptr, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_TIMEOUT) << report.message();
  const OwnedCancel cancel(quire_cancel_create(nullptr));
  quire_cancel_trigger(cancel.get(), nullptr);
  EXPECT_EQ(
      quire_model_load(world.runtime.get(), options.get(), QUIRE_WAIT_FOREVER, cancel.get(), report.out()),
      nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED) << report.message();
}

TEST_F(InterfaceTest, AShardedModelGivesTheSameAnswerAndTakesThePlannedBytes) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  const std::string path = embedded_model_path();
  quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
  const OwnedRequest request = make_request("Once upon a time", 20);
  std::vector<std::string> texts;
  for (const int32_t num_shards : {1, 2}) {
    quire_model_options_set_num_shards(options.get(), num_shards, nullptr);
    const OwnedPlan plan(quire_plan_create(world.runtime.get(), options.get(), nullptr, report.out()));
    ASSERT_TRUE(plan) << report.message();
    const OwnedModel model(
        quire_model_load(world.runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
    ASSERT_TRUE(model) << report.message();
    EXPECT_EQ(quire_model_weight_bytes(model.get(), nullptr),
              quire_plan_embedding_bytes(plan.get(), nullptr) + quire_plan_layer_bytes(plan.get(), nullptr) +
                  quire_plan_head_bytes(plan.get(), nullptr));
    const OwnedCache cache = make_cache(model.get());
    const OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
    ASSERT_TRUE(job) << report.message();
    texts.push_back(collect(job.get()).text);
  }
  EXPECT_FALSE(texts[0].empty());
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(InterfaceTest, IdsAreUniqueInTheProcessAndIndexNumbersCompletions) {
  const OwnedCache second = make_cache(world.model.get());
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  const OwnedRequest request = make_request("Hello", 3);
  quire_job_request_set_queue(request.get(), queue.get(), nullptr);
  quire_job_request_set_user_data(request.get(), 100, nullptr);
  quire_job_request_set_user_data_step(request.get(), 10, nullptr);
  std::vector<OwnedJob> jobs;
  for (quire_cache* const cache : {world.cache.get(), second.get()}) {
    quire_job* made[3] = {};
    ASSERT_EQ(quire_job_submit_many(cache, request.get(), made, 3, report.out()), 1) << report.message();
    for (quire_job* const job : made) jobs.emplace_back(job);
  }
  std::set<int64_t> ids;
  for (const OwnedJob& job : jobs) {
    ids.insert(quire_job_id(job.get(), nullptr));
    ASSERT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  }
  EXPECT_EQ(ids.size(), 6U);
  size_t num_last = 0;
  while (const OwnedEvent event{next_event(queue.get(), 0, nullptr)}) {
    const int32_t index = quire_event_index(event.get(), nullptr);
    EXPECT_EQ(quire_event_user_data(event.get(), nullptr), 100U + 10U * static_cast<uint64_t>(index));
    EXPECT_EQ(ids.count(quire_event_job_id(event.get(), nullptr)), 1U);
    num_last += quire_event_type(event.get(), nullptr) == QUIRE_EVENT_FINISHED ? 1 : 0;
  }
  EXPECT_EQ(num_last, 6U);
}

TEST_F(InterfaceTest, TheLastEventHasTheUsageOfTheJob) {
  OwnedEvent last;
  {
    const OwnedJob job = submit(make_request("Hello", 5));
    while (OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) last = std::move(event);
    EXPECT_EQ(quire_event_time_prompt_ns(last.get(), nullptr), quire_job_time_prompt_ns(job.get(), nullptr));
    EXPECT_EQ(quire_event_time_queued_ns(last.get(), nullptr), quire_job_time_queued_ns(job.get(), nullptr));
  }
  EXPECT_EQ(quire_event_type(last.get(), nullptr), QUIRE_EVENT_FINISHED);
  EXPECT_EQ(quire_event_prompt_tokens(last.get(), nullptr), 5);
  EXPECT_EQ(quire_event_new_tokens(last.get(), nullptr), 5);
  EXPECT_EQ(quire_event_cached_tokens(last.get(), nullptr), 0);
  EXPECT_EQ(quire_event_draft_tokens(last.get(), nullptr), 0);
  EXPECT_EQ(quire_event_stop_token(last.get(), nullptr), -1);
  EXPECT_GT(quire_event_time_generate_ns(last.get(), nullptr), 0);
  size_t length = 1;
  EXPECT_NE(quire_event_stop_text(last.get(), &length, nullptr), nullptr);
  EXPECT_EQ(length, 0U);
}

// Text and tokens, assembled from the fields of the events alone.
struct Assembled {
  std::string text;
  std::vector<int32_t> tokens;
  int32_t num_rewinds = 0;

  void add(quire_event* event) {
    if (quire_event_type(event, nullptr) == QUIRE_EVENT_REWIND) {
      ++num_rewinds;
      text.resize(static_cast<size_t>(quire_event_kept_bytes(event, nullptr)));
      tokens.resize(static_cast<size_t>(quire_event_kept_tokens(event, nullptr)));
      return;
    }
    size_t length = 0;
    const char* const piece = quire_event_text(event, &length, nullptr);
    std::vector<int32_t> more(static_cast<size_t>(quire_event_tokens(event, nullptr, 0, nullptr)));
    quire_event_tokens(event, more.data(), more.size(), nullptr);
    if (!more.empty()) {
      EXPECT_EQ(quire_event_first_token(event, nullptr), static_cast<int64_t>(tokens.size()));
    }
    text.append(piece, length);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
};

TEST_F(InterfaceTest, ARewindLeavesASeamThatReadersCanJoin) {
  const OwnedRequest request = make_request("Hello", 200);
  const Collected straight = collect(submit(request).get());
  quire_job_request_set_event_policy(request.get(), QUIRE_EVENTS_PAUSE, nullptr);
  quire_job_request_set_max_unread_events(request.get(), 2, nullptr);
  const OwnedJob job = submit(request);  // stays close to its reader
  Assembled seen;
  bool rewound = false;
  while (const OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) {
    seen.add(event.get());
    if (rewound || seen.tokens.size() < 8) continue;
    rewound = true;
    quire_job_rewind(job.get(), 3, nullptr);
  }
  EXPECT_EQ(seen.num_rewinds, 1);
  EXPECT_EQ(seen.tokens, straight.tokens);
  EXPECT_EQ(seen.text, straight.text);
}

TEST_F(InterfaceTest, ARequestThatNeverFitsHasItsOwnCode) {
  EXPECT_EQ(code_of_submit(make_request(std::string(5000, 'x'), 5)), QUIRE_ERROR_TOO_LARGE);
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_batch_size(options.get(), 1, nullptr);
  quire_cache_options_set_max_queue(options.get(), 1, nullptr);
  const OwnedCache cache(quire_cache_create(world.model.get(), options.get(), nullptr));
  std::vector<OwnedJob> jobs;
  quire_error* error = nullptr;
  while (error == nullptr) {
    jobs.emplace_back(quire_job_submit(cache.get(), make_request("Hello", 2000).get(), &error));
  }
  EXPECT_EQ(quire_error_code(error), QUIRE_ERROR_CAPACITY);
  EXPECT_EQ(quire_error_is_retryable(error), 1);
  EXPECT_GE(quire_error_retry_after_ns(error), -1);
  quire_error_free(error);
  EXPECT_EQ(quire_error_is_retryable(nullptr), 0);
  EXPECT_EQ(quire_error_retry_after_ns(nullptr), -1);
}

TEST_F(InterfaceTest, AnUnusedSettingIsRefusedByName) {
  const OwnedJob job = submit(make_request("Hello", 500));
  for (const auto* const prompt : {"other"}) {
    const OwnedRequest request = make_prompt(prompt);
    const OwnedJob fork(quire_job_fork(job.get(), request.get(), report.out()));
    EXPECT_FALSE(fork);
    EXPECT_EQ(report.code(), QUIRE_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(report.message().rfind("prompt: ", 0), 0U) << report.message();
  }
  const OwnedRequest hot(quire_job_request_create(nullptr));
  quire_job_request_set_temperature(hot.get(), 2.0, nullptr);
  EXPECT_FALSE(OwnedJob(quire_job_fork(job.get(), hot.get(), report.out())));
  EXPECT_EQ(report.message().rfind("temperature: ", 0), 0U) << report.message();
  const OwnedRequest embed = make_request("Hello", 5);
  quire_job_request_set_kind(embed.get(), QUIRE_JOB_KIND_EMBED, nullptr);
  EXPECT_EQ(code_of_submit(embed), QUIRE_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(report.message().rfind("max_new_tokens: ", 0), 0U) << report.message();
  const OwnedRequest nothing(quire_job_request_create(nullptr));
  EXPECT_EQ(code_of_submit(nothing), QUIRE_ERROR_INVALID_ARGUMENT) << "a forgotten prompt";
}

TEST_F(InterfaceTest, APromptHasItsPartsInOrder) {
  const auto tokens_of = [&](const OwnedRequest& request) {
    const OwnedJob job = submit(request);
    return quire_job_prompt_tokens(job.get(), nullptr);
  };
  const OwnedRequest parts = make_request("will be cleared", 1);
  EXPECT_EQ(quire_job_request_clear_prompt(parts.get(), nullptr), 1);
  int32_t ids[2] = {};
  ASSERT_EQ(quire_model_encode(world.model.get(), "ll", 2, 0, 0, ids, 2, nullptr), 2);
  quire_job_request_add_prompt_text(parts.get(), "He", 2, nullptr);
  quire_job_request_add_prompt_tokens(parts.get(), ids, 2, nullptr);
  quire_job_request_add_prompt_text(parts.get(), "o", 1, nullptr);
  EXPECT_EQ(tokens_of(parts), 5);
  EXPECT_EQ(collect(submit(parts).get()).tokens, collect(submit(make_request("Hello", 1)).get()).tokens);
  quire_job_request_add_prompt_special(parts.get(), "<|nowhere|>", 11, nullptr);
  EXPECT_EQ(code_of_submit(parts), QUIRE_ERROR_NOT_FOUND) << report.message();
}

TEST_F(InterfaceTest, ANamespaceIsUtf8InEveryCall) {
  const OwnedRequest request = make_request("Hello", 1);
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache* const cache = world.cache.get();
  const std::string broken = "caf\xc3";
  const char* const text = broken.data();
  const size_t size = broken.size();
  const auto expect_refused = [&](int32_t done) {
    EXPECT_EQ(done, 0);
    EXPECT_EQ(report.code(), QUIRE_ERROR_ENCODING);
    EXPECT_EQ(report.message().rfind("namespace is not valid UTF-8", 0), 0U) << report.message();
  };
  expect_refused(quire_job_request_set_namespace(request.get(), text, size, report.out()));
  expect_refused(
      quire_cache_options_set_namespace_quota(options.get(), text, size, QUIRE_QUOTA_PAGES, 1, report.out()));
  expect_refused(quire_cache_options_set_namespace_weight(options.get(), text, size, 1.0, report.out()));
  expect_refused(quire_cache_set_namespace_quota(cache, text, size, QUIRE_QUOTA_PAGES, 1, report.out()));
  expect_refused(quire_cache_set_namespace_weight(cache, text, size, 1.0, report.out()));
  EXPECT_EQ(quire_job_request_set_namespace(request.get(), "caf\xc3\xa9", 5, report.out()), 1);
  collect(submit(request).get());
  const OwnedStats stats(quire_cache_stats(cache, nullptr));
  char name[8] = {};
  ASSERT_EQ(quire_stats_namespace_name(stats.get(), 0, name, sizeof(name), report.out()), 5);
  EXPECT_STREQ(name, "caf\xc3\xa9");
}

TEST_F(InterfaceTest, ARandomSeedIsReported) {
  const OwnedRequest request = make_prompt("Hello");
  quire_job_request_set_max_new_tokens(request.get(), 40, nullptr);
  quire_job_request_set_random_seed(request.get(), 1, nullptr);
  const OwnedJob first = submit(request);
  const OwnedJob second = submit(request);
  EXPECT_NE(quire_job_seed(first.get(), nullptr), quire_job_seed(second.get(), nullptr));
  const OwnedRequest again = make_prompt("Hello");
  quire_job_request_set_max_new_tokens(again.get(), 40, nullptr);
  quire_job_request_set_seed(again.get(), quire_job_seed(first.get(), nullptr), nullptr);
  EXPECT_EQ(collect(first.get()).tokens, collect(submit(again).get()).tokens);
}

TEST_F(InterfaceTest, ARequestWithoutASeedDrawsANewOne) {
  const OwnedRequest request = make_prompt("Hello");
  const OwnedJob first = submit(request);
  const OwnedJob second = submit(request);
  EXPECT_NE(quire_job_seed(first.get(), nullptr), quire_job_seed(second.get(), nullptr));
  std::array<quire_job*, 2> many{};
  ASSERT_EQ(quire_job_submit_many(world.cache.get(), request.get(), many.data(), many.size(), nullptr), 1);
  const OwnedJob third(many[0]);
  const OwnedJob fourth(many[1]);
  EXPECT_EQ(quire_job_seed(fourth.get(), nullptr), quire_job_seed(third.get(), nullptr) + 1);
  EXPECT_NE(quire_job_seed(third.get(), nullptr), quire_job_seed(first.get(), nullptr));
  quire_job_request_set_seed(request.get(), 0, nullptr);
  EXPECT_EQ(quire_job_seed(submit(request).get(), nullptr), 0U) << "0 is a seed";
  const OwnedRequest fixed = make_prompt("Hello");
  quire_job_request_set_random_seed(fixed.get(), 0, nullptr);
  EXPECT_EQ(quire_job_seed(submit(fixed).get(), nullptr), 0U) << "chance is ruled out";
}

TEST_F(InterfaceTest, QuotasChangeWhileACacheIsInUse) {
  EXPECT_EQ(quire_cache_set_namespace_quota(world.cache.get(), "n", 1, QUIRE_QUOTA_PAGES, 2, report.out()),
            1);
  const OwnedRequest request = make_request("Hello", 40);
  quire_job_request_set_namespace(request.get(), "n", 1, nullptr);
  EXPECT_EQ(code_of_submit(request), QUIRE_ERROR_TOO_LARGE) << report.message();
  EXPECT_EQ(quire_cache_set_namespace_quota(world.cache.get(), "n", 1, QUIRE_QUOTA_PAGES, 0, report.out()),
            1);
  EXPECT_EQ(collect(submit(request).get()).tokens.size(), 40U);
  EXPECT_EQ(quire_cache_set_quota(world.cache.get(), QUIRE_QUOTA_PINNED_PAGES + 1, 1, report.out()), 0);
  EXPECT_EQ(quire_cache_set_namespace_weight(world.cache.get(), "n", 1, 0.0, report.out()), 0);
  EXPECT_EQ(quire_cache_set_namespace_weight(world.cache.get(), "n", 1, 2.0, report.out()), 1);
  EXPECT_EQ(quire_cache_set_device_weight(world.cache.get(), 0.0, report.out()), 0);
  EXPECT_EQ(quire_cache_set_device_weight(world.cache.get(), 2.0, report.out()), 1);
}

TEST_F(InterfaceTest, ABudgetNamesItsDeviceAndMayChange) {
  quire_runtime* const runtime = world.runtime.get();
  EXPECT_EQ(quire_runtime_set_memory_budget(runtime, "cpu", 3, 1000, report.out()), 1) << report.message();
  EXPECT_FALSE(OwnedCache(quire_cache_create(world.model.get(), nullptr, report.out())));
  EXPECT_EQ(report.code(), QUIRE_ERROR_OUT_OF_MEMORY) << report.message();
  EXPECT_EQ(quire_runtime_set_memory_budget(runtime, "cpu", 3, 0, report.out()), 1);
  EXPECT_TRUE(OwnedCache(quire_cache_create(world.model.get(), nullptr, report.out())));
  EXPECT_EQ(quire_runtime_set_memory_budget(runtime, "tpu:7", 5, 0, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND);
}

TEST_F(InterfaceTest, TheLogArrivesAsEventsOfAQueue) {
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  EXPECT_EQ(quire_queue_set_log_level(queue.get(), QUIRE_LOG_DEBUG, report.out()), 1);
  const OwnedJob job = submit(make_request("Hello", 2000));
  quire_cache_close(world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
  const OwnedEvent line(next_event(queue.get(), 0, report.out()));
  ASSERT_TRUE(line) << "closing a cache with live jobs is logged";
  EXPECT_EQ(quire_event_type(line.get(), nullptr), QUIRE_EVENT_LOG);
  EXPECT_EQ(quire_event_log_level(line.get(), nullptr), QUIRE_LOG_INFO);
  EXPECT_EQ(quire_event_job_id(line.get(), nullptr), 0);
  size_t length = 0;
  EXPECT_NE(std::string(quire_event_text(line.get(), &length, nullptr)).find("unfinished jobs"),
            std::string::npos);
  EXPECT_EQ(quire_queue_set_log_level(queue.get(), QUIRE_LOG_OFF, report.out()), 1);
}

TEST_F(InterfaceTest, MetricsListEachFamilyOnce) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_name(options.get(), "second", 6, nullptr);
  const OwnedCache second(quire_cache_create(world.model.get(), options.get(), nullptr));
  std::string page(size_t{1} << 20, '\0');
  const int64_t size = quire_runtime_metrics(world.runtime.get(), page.data(), page.size(), report.out());
  ASSERT_GT(size, 0) << report.message();
  page.resize(static_cast<size_t>(size));
  std::map<std::string, int> families;
  for (size_t at = page.find("# TYPE "); at != std::string::npos; at = page.find("# TYPE ", at + 1)) {
    ++families[page.substr(at + 7, page.find(' ', at + 7) - at - 7)];
  }
  EXPECT_FALSE(families.empty());
  for (const auto& [name, count] : families) EXPECT_EQ(count, 1) << name;
  EXPECT_NE(page.find("quire_pages{cache=\"1\"}"), std::string::npos);
  EXPECT_NE(page.find("quire_pages{cache=\"second\"}"), std::string::npos);
}

TEST_F(InterfaceTest, APageThatSeveralPinsKeepCountsOnce) {
  const OwnedRequest request = make_prompt(std::string(40, 'z'));
  quire_job_request_set_kind(request.get(), QUIRE_JOB_KIND_WARM, nullptr);
  collect(submit(request).get());
  std::vector<int64_t> pins;
  for (int i = 0; i < 200; ++i) {
    pins.push_back(
        quire_cache_pin(world.cache.get(), request.get(), 0, QUIRE_WAIT_FOREVER, nullptr, report.out()));
    ASSERT_GT(pins.back(), 0) << report.message();
  }
  const auto pinned = [&] {
    const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
    EXPECT_LE(quire_stats_pages_pinned(stats.get(), nullptr),
              quire_stats_pages_referenced(stats.get(), nullptr));
    return quire_stats_pages_pinned(stats.get(), nullptr);
  };
  EXPECT_EQ(pinned(), 10);
  for (const int64_t pin : pins) quire_cache_unpin(world.cache.get(), pin, nullptr);
  quire_cache_query(world.cache.get(), request.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
  EXPECT_EQ(pinned(), 0);
}

TEST_F(InterfaceTest, TheSizeOfLogitsNeedsNoCopy) {
  const OwnedRequest request = make_prompt(std::string(4000, 'z'));
  quire_job_request_set_kind(request.get(), QUIRE_JOB_KIND_SCORE, nullptr);
  quire_job_request_set_raw_logits(request.get(), 1, nullptr);
  const OwnedJob job = submit(request);
  ASSERT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const int64_t before = peak_kib();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(quire_job_raw_logits(job.get(), nullptr, 0, nullptr), int64_t{4000} * 160);
    EXPECT_EQ(quire_job_scores(job.get(), nullptr, 0, nullptr), 4000);
  }
  EXPECT_LE(peak_kib() - before, 1024) << "the result has 2500 KiB";
}

TEST_F(InterfaceTest, TheEventsOfAStepComeInOneDrain) {
  constexpr int32_t kJobs = 16;
  constexpr int32_t kTokens = 64;
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  const OwnedRequest request = make_request("Hello", kTokens);
  quire_job_request_set_queue(request.get(), queue.get(), nullptr);
  quire_job* made[kJobs] = {};
  ASSERT_EQ(quire_job_submit_many(world.cache.get(), request.get(), made, kJobs, report.out()), 1);
  std::vector<OwnedJob> jobs;
  for (quire_job* const job : made) jobs.emplace_back(job);
  int64_t num_drains = 0;
  int32_t num_over = 0;
  while (num_over < kJobs) {
    quire_event* events[256] = {};
    const int64_t count =
        quire_queue_drain(queue.get(), QUIRE_WAIT_FOREVER, nullptr, events, 256, report.out());
    ASSERT_GT(count, 0);
    ++num_drains;
    for (int64_t i = 0; i < count; ++i) {
      num_over += quire_event_type(events[i], nullptr) == QUIRE_EVENT_FINISHED ? 1 : 0;
      quire_event_free(events[i], nullptr);
    }
  }
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  const int64_t steps = quire_stats_steps(stats.get(), nullptr);
  EXPECT_LE(static_cast<double>(num_drains), 1.2 * static_cast<double>(steps)) << steps;
}

TEST_F(InterfaceTest, AQueueListsJobsWithEventsAndTakesNone) {
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  const OwnedRequest request = make_request("Hello", 5);
  quire_job_request_set_queue(request.get(), queue.get(), nullptr);
  const OwnedJob first = submit(request);
  const OwnedJob second = submit(request);
  std::set<int64_t> told;
  while (told.size() < 2) {
    int64_t ids[8] = {};
    const int64_t count = quire_queue_ready(queue.get(), QUIRE_WAIT_FOREVER, nullptr, ids, 8, report.out());
    ASSERT_GT(count, 0) << report.message();
    told.insert(ids, ids + count);
  }
  EXPECT_EQ(told.count(quire_job_id(first.get(), nullptr)), 1U);
  EXPECT_EQ(told.count(quire_job_id(second.get(), nullptr)), 1U);
  EXPECT_EQ(collect(first.get()).tokens.size(), 5U) << "none was taken";
  quire_queue_close(queue.get(), nullptr);
  EXPECT_EQ(collect(second.get()).tokens.size(), 5U);
  int64_t id = 0;
  while (quire_queue_ready(queue.get(), 0, nullptr, &id, 1, report.out()) > 0) {
  }
  EXPECT_EQ(quire_queue_ready(queue.get(), QUIRE_WAIT_FOREVER, nullptr, &id, 1, report.out()),
            QUIRE_WAIT_END);
  EXPECT_EQ(quire_queue_ready(queue.get(), 0, nullptr, &id, 0, report.out()), QUIRE_WAIT_FAILED);
}

}  // namespace
}  // namespace quire::testing
