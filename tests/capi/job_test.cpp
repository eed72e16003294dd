// Jobs through the C interface: each setting of a request takes effect, and an impossible one is refused by
// name at submit.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

class JobTest : public ::testing::Test {
 protected:
  OwnedJob submit(const OwnedRequest& request) {
    return OwnedJob(quire_job_submit(world.cache.get(), request.get(), report.out()));
  }
  Collected run(const OwnedRequest& request) {
    const OwnedJob job = submit(request);
    EXPECT_TRUE(job) << report.message();
    return job ? collect(job.get()) : Collected{};
  }
  void expect_refused(const OwnedRequest& request, int32_t code, const std::string& word) {
    EXPECT_FALSE(submit(request));
    EXPECT_EQ(report.code(), code) << report.message();
    EXPECT_NE(report.message().find(word), std::string::npos) << report.message();
  }

  World world;
  Report report;
};

TEST_F(JobTest, GeneratesTextAndTokensThatAgree) {
  const OwnedRequest request = make_request("Hello", 40);
  const OwnedJob job = submit(request);
  ASSERT_TRUE(job);
  const Collected collected = collect(job.get());
  EXPECT_EQ(collected.tokens.size(), 40u);
  EXPECT_EQ(collected.finish_reason, QUIRE_FINISH_LENGTH);
  EXPECT_EQ(collected.num_last_events, 1);
  std::string decoded(4096, '\0');
  const int64_t size = quire_model_decode(world.model.get(), collected.tokens.data(), collected.tokens.size(),
                                          1, decoded.data(), decoded.size(), nullptr);
  EXPECT_EQ(collected.text, decoded.substr(0, static_cast<size_t>(size)));
  EXPECT_EQ(next_event(job.get(), QUIRE_WAIT_FOREVER, report.out()), nullptr) << "the end";
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK);
}

TEST_F(JobTest, ReportsItsCounters) {
  const OwnedJob job = submit(make_request("Hello", 10));
  EXPECT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  EXPECT_EQ(quire_job_state(job.get(), nullptr), QUIRE_JOB_STATE_FINISHED);
  EXPECT_EQ(quire_job_finish_reason(job.get(), nullptr), QUIRE_FINISH_LENGTH);
  EXPECT_EQ(quire_job_error_code(job.get(), nullptr), QUIRE_ERROR_OK);
  EXPECT_EQ(quire_job_prompt_tokens(job.get(), nullptr), 5);
  EXPECT_EQ(quire_job_cached_tokens(job.get(), nullptr), 0);
  EXPECT_EQ(quire_job_new_tokens(job.get(), nullptr), 10);
  EXPECT_EQ(quire_job_stop_token(job.get(), nullptr), -1);
  EXPECT_GE(quire_job_time_queued_ns(job.get(), nullptr), 0);
  EXPECT_GT(quire_job_time_prompt_ns(job.get(), nullptr), 0);
  EXPECT_GT(quire_job_time_generate_ns(job.get(), nullptr), 0);
  EXPECT_GE(quire_job_id(job.get(), nullptr), 0);
}

TEST_F(JobTest, TextAndTokensAreTheSamePrompt) {
  const Collected expected = run(make_request("Hello", 20));
  const OwnedRequest request = make_request("not this", 20);
  std::vector<int32_t> ids(16);
  ids.resize(static_cast<size_t>(
      quire_model_encode(world.model.get(), "Hello", 5, 1, 0, ids.data(), ids.size(), nullptr)));
  quire_job_request_set_prompt_tokens(request.get(), ids.data(), ids.size(), nullptr);
  EXPECT_EQ(run(request).tokens, expected.tokens);
}

TEST_F(JobTest, ARequestMayBeUsedAgainAndFreedAtOnce) {
  OwnedRequest request = make_request("Hello", 20);
  const OwnedJob first = submit(request);
  const OwnedJob second = submit(request);
  request.reset();
  EXPECT_EQ(collect(first.get()).tokens, collect(second.get()).tokens);
}

TEST_F(JobTest, TheSeedDecides) {
  const auto draw = [&](uint64_t seed) {
    const OwnedRequest request = make_request("Hello", 30);
    quire_job_request_set_temperature(request.get(), 1.0, nullptr);
    quire_job_request_set_seed(request.get(), seed, nullptr);
    return run(request).tokens;
  };
  EXPECT_EQ(draw(5), draw(5));
  EXPECT_NE(draw(5), draw(6));
}

TEST_F(JobTest, ANegativePromptWorksByItsScale) {
  const auto guided = [&](double scale) {
    OwnedRequest request = make_request("Hello", 20);
    quire_job_request_set_negative_prompt_text(request.get(), "not this", 8, nullptr);
    quire_job_request_set_guidance_scale(request.get(), scale, nullptr);
    return request;
  };
  EXPECT_EQ(run(guided(0.0)).tokens, run(make_request("not this", 20)).tokens) << "that of the guide alone";
  EXPECT_NE(run(guided(3.0)).tokens, run(make_request("Hello", 20)).tokens);
  expect_refused(guided(1.0), QUIRE_ERROR_INVALID_ARGUMENT, "negative_prompt");
  const OwnedRequest alone = make_request("Hello", 20);
  quire_job_request_set_guidance_scale(alone.get(), 3.0, nullptr);
  expect_refused(alone, QUIRE_ERROR_INVALID_ARGUMENT, "guidance_scale");
  EXPECT_EQ(quire_job_request_set_guidance_scale(alone.get(), 101.0, nullptr), 0);

  std::vector<int32_t> ids(16);
  ids.resize(static_cast<size_t>(
      quire_model_encode(world.model.get(), "not this", 8, 1, 0, ids.data(), ids.size(), nullptr)));
  const OwnedRequest by_ids = guided(3.0);
  quire_job_request_set_negative_prompt_tokens(by_ids.get(), ids.data(), ids.size(), nullptr);
  EXPECT_EQ(run(by_ids).tokens, run(guided(3.0)).tokens);
}

TEST_F(JobTest, StopsAtAText) {
  const std::string whole = run(make_request("Hello", 60)).text;
  ASSERT_GT(whole.size(), 12u);
  const std::string stop = whole.substr(8, 3);
  const OwnedRequest request = make_request("Hello", 60);
  quire_job_request_add_stop_text(request.get(), stop.data(), stop.size(), nullptr);
  const OwnedJob job = submit(request);
  const Collected collected = collect(job.get());
  EXPECT_EQ(collected.finish_reason, QUIRE_FINISH_STOP_STRING);
  EXPECT_EQ(collected.text, whole.substr(0, whole.find(stop)));
  std::string text(16, '\0');
  EXPECT_EQ(quire_job_stop_text(job.get(), text.data(), text.size(), nullptr), 3);
  EXPECT_EQ(text.substr(0, 3), stop);
  quire_job_request_clear_stop_texts(request.get(), nullptr);
  EXPECT_EQ(run(request).text, whole);
}

TEST_F(JobTest, StopsAtAToken) {
  const Collected whole = run(make_request("Hello", 30));
  const int32_t stop = whole.tokens[10];
  const auto place = std::find(whole.tokens.begin(), whole.tokens.end(), stop) - whole.tokens.begin();
  const OwnedRequest request = make_request("Hello", 30);
  quire_job_request_set_stop_tokens(request.get(), &stop, 1, nullptr);
  const OwnedJob job = submit(request);
  const Collected collected = collect(job.get());
  EXPECT_EQ(collected.finish_reason, QUIRE_FINISH_STOP_TOKEN);
  EXPECT_EQ(quire_job_stop_token(job.get(), nullptr), stop);
  EXPECT_EQ(quire_job_new_tokens(job.get(), nullptr), place + 1);
}

TEST_F(JobTest, CarriesTheCallersNumber) {
  const OwnedRequest request = make_request("Hello", 3);
  quire_job_request_set_user_data(request.get(), UINT64_MAX - 1, nullptr);
  const OwnedJob job = submit(request);
  while (const OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) {
    EXPECT_EQ(quire_event_user_data(event.get(), nullptr), UINT64_MAX - 1);
    EXPECT_EQ(quire_event_job_id(event.get(), nullptr), quire_job_id(job.get(), nullptr));
  }
}

TEST_F(JobTest, ReportsPromptProgressOnRequest) {
  const OwnedRequest request = make_request(std::string(100, 'x'), 1);
  quire_job_request_set_progress_events(request.get(), 1, nullptr);
  const OwnedJob job = submit(request);
  int64_t done = 0;
  while (const OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) {
    if (quire_event_type(event.get(), nullptr) != QUIRE_EVENT_PROGRESS) continue;
    EXPECT_EQ(quire_event_progress_total(event.get(), nullptr), 100);
    EXPECT_GT(quire_event_progress_done(event.get(), nullptr), done);
    done = quire_event_progress_done(event.get(), nullptr);
  }
  EXPECT_GT(done, 0);
}

TEST_F(JobTest, CancelEndsItAndKeepsItsText) {
  const OwnedJob job = submit(make_request("Hello", 3000));
  Collected collected;
  while (collected.tokens.empty()) {
    const OwnedEvent event(next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr));
    add_event(collected, event.get());
  }
  EXPECT_EQ(quire_job_cancel(job.get(), nullptr), 1);
  EXPECT_EQ(quire_job_cancel(job.get(), nullptr), 1);
  const Collected rest = collect(job.get());
  EXPECT_EQ(rest.finish_reason, QUIRE_FINISH_CANCELLED);
  EXPECT_EQ(rest.last_type, QUIRE_EVENT_FINISHED);
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  EXPECT_EQ(quire_stats_pages_free(stats.get(), nullptr) + quire_stats_pages_cached(stats.get(), nullptr) +
                quire_stats_pages_referenced(stats.get(), nullptr),
            quire_stats_pages_total(stats.get(), nullptr));
}

TEST_F(JobTest, ATimeoutIsNoError) {
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  EXPECT_EQ(next_event(queue.get(), 1000, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK);
  const OwnedJob job = submit(make_request("Hello", 3000));
  EXPECT_EQ(quire_job_wait(job.get(), 0, nullptr, report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK);
}

TEST_F(JobTest, AQueueGivesSeveralEventsAtOnce) {
  const OwnedQueue queue(quire_queue_create(world.runtime.get(), nullptr));
  std::array<quire_event*, 3> events{};
  EXPECT_EQ(quire_queue_drain(queue.get(), 0, nullptr, events.data(), events.size(), report.out()), 0);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK);
  EXPECT_EQ(quire_queue_drain(queue.get(), 0, nullptr, events.data(), 0, report.out()), -1);
  EXPECT_NE(report.message().find("max_events"), std::string::npos);
  const OwnedRequest request = make_request("Hello", 5);
  quire_job_request_set_queue(request.get(), queue.get(), nullptr);
  constexpr uint64_t kNumJobs = 5;
  std::vector<OwnedJob> jobs;
  for (uint64_t i = 0; i < kNumJobs; ++i) {
    quire_job_request_set_user_data(request.get(), i, nullptr);
    jobs.push_back(submit(request));
  }
  for (const OwnedJob& job : jobs)
    EXPECT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
  // Every job has at least one event in the queue, so the first call fills the whole array.
  EXPECT_EQ(quire_queue_drain(queue.get(), 0, nullptr, events.data(), events.size(), report.out()), 3);
  std::vector<Collected> collected(kNumJobs);
  for (int64_t count = 3; count > 0;) {
    for (int64_t i = 0; i < count; ++i) {
      const OwnedEvent event(events[static_cast<size_t>(i)]);
      add_event(collected.at(quire_event_user_data(event.get(), nullptr)), event.get());
    }
    count = quire_queue_drain(queue.get(), 0, nullptr, events.data(), events.size(), report.out());
  }
  for (const Collected& job : collected) {
    EXPECT_EQ(job.num_last_events, 1);
    EXPECT_EQ(job.tokens, collected.front().tokens);
    EXPECT_EQ(job.tokens.size(), 5u);
  }
  quire_queue_close(queue.get(), nullptr);
  EXPECT_EQ(quire_queue_drain(queue.get(), QUIRE_WAIT_FOREVER, nullptr, events.data(), 3, report.out()),
            QUIRE_WAIT_END);
  EXPECT_EQ(report.code(), QUIRE_ERROR_OK);
}

TEST_F(JobTest, RefusesImpossibleRequests) {
  expect_refused(make_request("", 5), QUIRE_ERROR_INVALID_ARGUMENT, "prompt");
  expect_refused(make_request("ab\xff", 5), QUIRE_ERROR_ENCODING,
                 "prompt: text is not valid UTF-8 at byte 2");
  const OwnedRequest parts = make_request("Hello", 5);
  quire_job_request_add_prompt_text(parts.get(), "a\xff", 2, nullptr);
  expect_refused(parts, QUIRE_ERROR_ENCODING, "prompt: part 1: text is not valid UTF-8 at byte 1");
  expect_refused(make_request(std::string(5000, 'x'), 5), QUIRE_ERROR_TOO_LARGE, "");
  for (const int32_t id : {-1, 160, INT32_MAX}) {
    const OwnedRequest request = make_request("Hello", 5);
    quire_job_request_set_prompt_tokens(request.get(), &id, 1, nullptr);
    expect_refused(request, QUIRE_ERROR_INVALID_ARGUMENT, "prompt");
  }
  const OwnedRequest stop = make_request("Hello", 5);
  const int32_t unknown = 160;
  quire_job_request_set_stop_tokens(stop.get(), &unknown, 1, nullptr);
  expect_refused(stop, QUIRE_ERROR_INVALID_ARGUMENT, "stop_tokens");
  const OwnedStats stats(quire_cache_stats(world.cache.get(), nullptr));
  EXPECT_EQ(quire_stats_jobs_submitted(stats.get(), nullptr), 0) << "a refused job leaves nothing";
}

TEST_F(JobTest, SettersRefuseValuesThatNoModelTakes) {
  const OwnedRequest request = make_request("Hello", 5);
  quire_job_request* const of = request.get();
  EXPECT_EQ(quire_job_request_set_max_new_tokens(of, 0, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_min_new_tokens(of, -1, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_temperature(of, NAN, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_temperature(of, -1.0, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_top_p(of, 0.0, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_top_p(of, 1.1, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_top_k(of, -1, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_min_p(of, INFINITY, nullptr), 0);
  Report named;
  EXPECT_EQ(quire_job_request_add_stop_text(of, "", 0, named.out()), 0);
  EXPECT_EQ(named.message().rfind("stop_texts: ", 0), 0U) << named.message();
  EXPECT_EQ(quire_job_request_add_banned_text(of, "", 0, named.out()), 0);
  EXPECT_EQ(named.message().rfind("banned_texts: ", 0), 0U) << named.message();
  EXPECT_EQ(quire_job_request_set_repetition_penalty(of, 0.0, named.out()), 0);
  EXPECT_EQ(named.message().rfind("repetition_penalty: ", 0), 0U) << named.message();
  EXPECT_EQ(quire_job_request_set_frequency_penalty(of, -101.0, named.out()), 0);
  EXPECT_EQ(named.message().rfind("frequency_penalty: ", 0), 0U) << named.message();
  EXPECT_EQ(quire_job_request_set_presence_penalty(of, 101.0, named.out()), 0);
  EXPECT_EQ(named.message().rfind("presence_penalty: ", 0), 0U) << named.message();
  EXPECT_EQ(quire_job_request_set_penalty_range(of, -2, nullptr), 0);
  EXPECT_EQ(quire_job_request_add_logit_bias(of, -1, 1.0, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_top_log_probs(of, 65, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_kind(of, 4, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_event_policy(of, 3, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_max_unread_events(of, 1, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_priority(of, 1001, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_deadline_ns(of, -1, nullptr), 0);
  EXPECT_EQ(quire_job_request_set_namespace(of, std::string(257, 'n').c_str(), 257, nullptr), 0);
  EXPECT_EQ(run(request).tokens.size(), 5u) << "and is as before";
}

TEST_F(JobTest, TheLargestNumberOfNewTokensIsAccepted) {
  const OwnedJob job = submit(make_request("Hello", INT32_MAX));
  EXPECT_EQ(quire_job_cancel(job.get(), report.out()), 1) << report.message();
}

TEST_F(JobTest, AFullQueueRefuses) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_batch_size(options.get(), 1, nullptr);
  quire_cache_options_set_max_queue(options.get(), 2, nullptr);
  const OwnedCache cache(quire_cache_create(world.model.get(), options.get(), nullptr));
  std::vector<OwnedJob> jobs;
  for (int i = 0; i < 10; ++i) {
    OwnedJob job(quire_job_submit(cache.get(), make_request("Hello", 4000).get(), report.out()));
    if (!job) break;
    jobs.push_back(std::move(job));
  }
  EXPECT_EQ(report.code(), QUIRE_ERROR_CAPACITY) << report.message();
  EXPECT_LT(jobs.size(), 10u);
}

TEST_F(JobTest, ADeadlineThatCannotBeMetIsRefusedByName) {
  run(make_request("Hello", 5));  // now the cache has an estimate of the time of a step
  const OwnedRequest whole = make_request("Hello", 100);
  quire_job_request_set_deadline_ns(whole.get(), 1, nullptr);
  expect_refused(whole, QUIRE_ERROR_DEADLINE_TOO_SHORT, "deadline_ns");
  const OwnedRequest first = make_request("Hello", 100);
  quire_job_request_set_first_token_deadline_ns(first.get(), 1, nullptr);
  expect_refused(first, QUIRE_ERROR_DEADLINE_TOO_SHORT, "first_token_deadline_ns");
  quire_job_request_set_first_token_deadline_ns(first.get(), INT64_MAX, nullptr);
  EXPECT_EQ(run(first).finish_reason, QUIRE_FINISH_LENGTH);
}

TEST_F(JobTest, AQueueDeadlineThatPassesEndsTheJob) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_batch_size(options.get(), 1, nullptr);
  const OwnedCache cache(quire_cache_create(world.model.get(), options.get(), nullptr));
  const OwnedJob running(quire_job_submit(cache.get(), make_request("Hello", 4000).get(), nullptr));
  const OwnedEvent started(next_event(running.get(), QUIRE_WAIT_FOREVER, nullptr));
  const OwnedRequest request = make_request("Hello", 5);
  quire_job_request_set_queue_deadline_ns(request.get(), 1, nullptr);
  const OwnedJob late(quire_job_submit(cache.get(), request.get(), report.out()));
  ASSERT_TRUE(late) << report.message();
  EXPECT_EQ(collect(late.get()).error_code, QUIRE_ERROR_DEADLINE);
}

TEST_F(JobTest, ALaterJobFindsThePromptInTheCache) {
  const OwnedRequest request = make_request(std::string(41, 'y'), 3);
  const Collected cold = run(request);
  const OwnedJob job = submit(request);
  EXPECT_EQ(collect(job.get()).tokens, cold.tokens);
  EXPECT_GE(quire_job_cached_tokens(job.get(), nullptr), 40 - 40 % 4);
  EXPECT_GE(quire_cache_query(world.cache.get(), request.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 40);
  quire_job_request_set_namespace(request.get(), "other", 5, nullptr);
  EXPECT_EQ(quire_cache_query(world.cache.get(), request.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 0);
}

TEST_F(JobTest, AWarmPromptCanBePinned) {
  const OwnedRequest request = make_prompt(std::string(40, 'z'));
  EXPECT_EQ(quire_cache_pin(world.cache.get(), request.get(), 0, QUIRE_WAIT_FOREVER, nullptr, report.out()),
            -1);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND) << report.message();
  quire_job_request_set_kind(request.get(), QUIRE_JOB_KIND_WARM, nullptr);
  EXPECT_EQ(run(request).finish_reason, QUIRE_FINISH_COMPLETED);
  const int64_t pin =
      quire_cache_pin(world.cache.get(), request.get(), 0, QUIRE_WAIT_FOREVER, nullptr, report.out());
  ASSERT_GT(pin, 0) << report.message();
  const OwnedStats pinned(quire_cache_stats(world.cache.get(), nullptr));
  EXPECT_EQ(quire_stats_pages_pinned(pinned.get(), nullptr), 10);
  EXPECT_EQ(quire_cache_unpin(world.cache.get(), pin, nullptr), 1);
  EXPECT_GE(quire_cache_query(world.cache.get(), request.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 36);
  const OwnedStats after(quire_cache_stats(world.cache.get(), nullptr));
  EXPECT_EQ(quire_stats_pages_pinned(after.get(), nullptr), 0);
}

TEST_F(JobTest, AForkContinuesByItself) {
  const OwnedRequest request = make_request("Hello", 60);
  quire_job_request_set_seed(request.get(), 5, nullptr);
  const Collected whole = run(request);
  const OwnedJob parent = submit(request);
  Collected collected;
  while (collected.tokens.size() < 3) {
    const OwnedEvent event(next_event(parent.get(), QUIRE_WAIT_FOREVER, nullptr));
    ASSERT_TRUE(event);
    add_event(collected, event.get());
  }
  quire_job_pause(parent.get(), nullptr);
  const OwnedRequest settings(quire_job_request_create(nullptr));
  quire_job_request_set_user_data(settings.get(), 9, nullptr);
  const OwnedJob fork(quire_job_fork(parent.get(), settings.get(), report.out()));
  ASSERT_TRUE(fork) << report.message();
  EXPECT_EQ(quire_job_seed(fork.get(), nullptr), quire_job_seed(parent.get(), nullptr));
  quire_job_resume(parent.get(), nullptr);
  const Collected rest = collect(parent.get());
  collected.tokens.insert(collected.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  EXPECT_EQ(collected.tokens, whole.tokens);
  const Collected forked = collect(fork.get());
  if (forked.last_type == QUIRE_EVENT_ERROR) {
    EXPECT_EQ(forked.error_code, QUIRE_ERROR_CLOSED) << "the parent was over first";
    return;
  }
  ASSERT_LE(forked.tokens.size(), whole.tokens.size());
  EXPECT_TRUE(std::equal(forked.tokens.rbegin(), forked.tokens.rend(), whole.tokens.rbegin()))
      << "greedy: the same end";
}

TEST_F(JobTest, AForkTakesASeedOfItsOwn) {
  const OwnedRequest request = make_request("Hello", 60);
  quire_job_request_set_seed(request.get(), 5, nullptr);
  const OwnedJob parent = submit(request);
  const auto seed_of_fork = [&](const OwnedRequest& settings) {
    const OwnedJob fork(quire_job_fork(parent.get(), settings.get(), report.out()));
    return quire_job_seed(fork.get(), report.out());
  };
  const OwnedRequest with_zero(quire_job_request_create(nullptr));
  quire_job_request_set_seed(with_zero.get(), 0, nullptr);
  EXPECT_EQ(seed_of_fork(with_zero), 0U);
  const OwnedRequest by_chance(quire_job_request_create(nullptr));
  quire_job_request_set_random_seed(by_chance.get(), 1, nullptr);
  EXPECT_NE(seed_of_fork(by_chance), seed_of_fork(by_chance));
}

}  // namespace
}  // namespace quire::testing
