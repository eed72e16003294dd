// The two callbacks: their allowed calls, the effects of misbehaviour, and the time after which they are not
// called any more.
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <quire/experimental.h>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

// Loads the tiny model with a progress function.
class ProgressTest : public ::testing::Test {
 protected:
  OwnedModel load(quire_progress_fn progress, void* user_data, quire_cancel* cancel = nullptr) {
    const OwnedModelOptions options(quire_model_options_create(nullptr));
    const std::string& path = tiny_model_path();
    quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr);
    quire_model_options_set_progress(options.get(), progress, user_data, nullptr);
    return OwnedModel(
        quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, cancel, report.out()));
  }

  OwnedRuntime runtime = make_runtime();
  Report report;
};

TEST_F(ProgressTest, RunsOnTheCallingThreadAndEndsAtTheTotal) {
  struct Seen {
    std::thread::id thread = std::this_thread::get_id();
    int64_t done = -1;
    int64_t total = 0;
    bool in_order = true;
  } seen;
  const auto note = [](void* user_data, int64_t done, int64_t total) {
    auto& of = *static_cast<Seen*>(user_data);
    of.in_order = of.in_order && done >= of.done && done <= total && of.thread == std::this_thread::get_id();
    of.done = done;
    of.total = total;
  };
  EXPECT_TRUE(load(note, &seen)) << report.message();
  EXPECT_TRUE(seen.in_order);
  EXPECT_GT(seen.total, 0);
  EXPECT_EQ(seen.done, seen.total);
}

TEST_F(ProgressTest, MayReadButNotWaitOrLoad) {
  struct Inside {
    quire_runtime* runtime;
    std::vector<int32_t> refused;
    int32_t allowed = 0;
  } inside{runtime.get(), {}, 0};
  const auto try_all = [](void* user_data, int64_t, int64_t) {
    auto& of = *static_cast<Inside*>(user_data);
    Report error;
    const OwnedModelOptions options(quire_model_options_create(nullptr));
    quire_model_load(of.runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, error.out());
    of.refused.push_back(error.code());
    quire_runtime_free(of.runtime, error.out());
    of.refused.push_back(error.code());
    const OwnedQueue queue(quire_queue_create(of.runtime, nullptr));
    next_event(queue.get(), 1, error.out());
    of.refused.push_back(error.code());
    next_event(queue.get(), 0, error.out());
    of.refused.push_back(error.code() == QUIRE_ERROR_OK ? QUIRE_ERROR_REENTRANT : error.code());
    quire_runtime_measure_op_rate(of.runtime, 0, error.out());
    of.refused.push_back(error.code());
    of.allowed = quire_runtime_num_devices(of.runtime, nullptr);
  };
  EXPECT_TRUE(load(try_all, &inside)) << report.message();
  EXPECT_GE(inside.allowed, 1);
  ASSERT_FALSE(inside.refused.empty());
  for (const int32_t code : inside.refused) EXPECT_EQ(code, QUIRE_ERROR_REENTRANT);
}

TEST_F(ProgressTest, ACancelInTheCallbackEndsTheLoad) {
  const OwnedCancel cancel(quire_cancel_create(nullptr));
  const auto trigger = [](void* user_data, int64_t, int64_t) {
    quire_cancel_trigger(static_cast<quire_cancel*>(user_data), nullptr);
  };
  const int64_t handles = num_live_handles();
  EXPECT_FALSE(load(trigger, cancel.get(), cancel.get()));
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED) << report.message();
  EXPECT_FALSE(load(nullptr, nullptr, cancel.get())) << "it stays triggered";
  EXPECT_EQ(report.code(), QUIRE_ERROR_CANCELLED);
  EXPECT_EQ(num_live_handles(), handles);
  EXPECT_TRUE(load(nullptr, nullptr)) << "another load is not touched";
}

TEST_F(ProgressTest, AnExceptionEndsTheLoad) {
  const auto fail = [](void*, int64_t, int64_t) { throw std::runtime_error("the host's own trouble"); };
  const int64_t handles = num_live_handles();
  EXPECT_FALSE(load(fail, nullptr));
  EXPECT_EQ(report.message(), "the host's own trouble");
  EXPECT_EQ(num_live_handles(), handles);
  EXPECT_TRUE(load(nullptr, nullptr));
}

// A log sink that keeps its lines and misbehaves on request.
struct Sink {
  std::atomic<int> num_lines{0};
  std::atomic<bool> throws{false};
  std::mutex mutex;
  std::vector<std::string> lines;
  static void write(void* user_data, int32_t level, const char* text, size_t text_len) {
    auto& of = *static_cast<Sink*>(user_data);
    ++of.num_lines;
    EXPECT_GE(level, QUIRE_LOG_ERROR);
    EXPECT_LE(level, QUIRE_LOG_DEBUG);
    const std::string line(text, text_len);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    {
      const std::lock_guard<std::mutex> lock(of.mutex);
      of.lines.push_back(line);
    }
    if (of.throws) throw std::runtime_error("the sink fails");
  }
};

OwnedRuntime make_logging_runtime(Sink& sink, int32_t level = QUIRE_LOG_DEBUG) {
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  quire_runtime_options_set_num_threads(options.get(), 1, nullptr);
  quire_runtime_options_set_log_level(options.get(), level, nullptr);
  quire_runtime_options_set_log_sink(options.get(), Sink::write, &sink, nullptr);
  return OwnedRuntime(quire_runtime_create(options.get(), nullptr));
}

TEST(LogSink, IsNotCalledAfterTheRuntimeIsFreed) {
  for (const bool throws : {false, true}) {
    Sink sink;
    sink.throws = throws;
    OwnedRuntime runtime = make_logging_runtime(sink);
    const OwnedModel model = load_model(runtime.get());
    const OwnedCache cache = make_cache(model.get());
    const OwnedJob job(quire_job_submit(cache.get(), make_request("abc", 300).get(), nullptr));
    runtime.reset();
    const int num_lines = sink.num_lines;
    EXPECT_EQ(collect(job.get()).tokens.size(), 300u);
    EXPECT_EQ(sink.num_lines, num_lines);
  }
}

TEST(LogSink, ReceivesTheLiveHandles) {
  Sink sink;
  OwnedRuntime runtime = make_logging_runtime(sink, QUIRE_LOG_WARNING);
  const OwnedModel model = load_model(runtime.get());
  const OwnedCache cache = make_cache(model.get());
  const OwnedQueue queue(quire_queue_create(runtime.get(), nullptr));
  std::vector<OwnedJob> jobs;
  for (int i = 0; i < 3; ++i)
    jobs.emplace_back(quire_job_submit(cache.get(), make_request("abc", 2).get(), nullptr));
  jobs.pop_back();
  runtime.reset();
  ASSERT_EQ(sink.lines.size(), 1u);
  EXPECT_NE(sink.lines[0].find("1 quire_model, 1 quire_cache, 2 quire_job, 1 quire_queue"), std::string::npos)
      << sink.lines[0];
}

TEST(LogSink, ReceivesNothingIfAllWasFreed) {
  Sink sink;
  {
    const OwnedRuntime runtime = make_logging_runtime(sink, QUIRE_LOG_WARNING);
    const OwnedModel model = load_model(runtime.get());
    const OwnedCache cache = make_cache(model.get());
    const OwnedJob job(quire_job_submit(cache.get(), make_request("abc", 2).get(), nullptr));
    collect(job.get());
  }
  EXPECT_TRUE(sink.lines.empty()) << sink.lines[0];
}

// Even for failures at the most detailed level, prompts, stop texts and results never appear in the log or in
// error messages.
TEST(LogSink, NeverReceivesPromptText) {
  const std::string secret = "xyzzyplugh";
  Sink sink;
  std::vector<std::string> messages;
  {
    OwnedRuntime runtime = make_logging_runtime(sink);
    const OwnedModel model = load_model(runtime.get());
    const OwnedCache cache = make_cache(model.get());
    Report report;
    const auto submit = [&](const OwnedRequest& request) {
      OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
      messages.push_back(report.message());
      return job;
    };
    const OwnedRequest broken = make_request(secret + "\xff" + secret, 5);
    EXPECT_FALSE(submit(broken));
    const OwnedRequest long_one = make_request(secret + std::string(10000, 'x'), 5);
    EXPECT_FALSE(submit(long_one));
    const OwnedRequest bad_stop = make_request(secret, 5);
    quire_job_request_add_stop_text(bad_stop.get(), (secret + "\xff").data(), secret.size() + 1, nullptr);
    EXPECT_FALSE(submit(bad_stop));
    // Jobs that end in every way: stopped, cancelled, without any allowed token, slowed by an idle reader,
    // too late.
    const OwnedRequest stopped = make_request(secret, 50);
    quire_job_request_add_stop_text(stopped.get(), secret.data(), secret.size(), nullptr);
    const OwnedRequest masked = make_request(secret, 50);
    std::vector<int32_t> all(static_cast<size_t>(quire_cache_vocab_size(cache.get(), nullptr)));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    quire_job_request_set_banned_tokens(masked.get(), all.data(), all.size(), nullptr);
    const OwnedRequest unread = make_request(secret, 50);
    quire_job_request_set_event_policy(unread.get(), QUIRE_EVENTS_END, nullptr);
    quire_job_request_set_max_unread_events(unread.get(), 2, nullptr);
    const OwnedRequest late = make_request(secret, 3000);
    quire_job_request_set_deadline_ns(late.get(), 1000000, nullptr);
    const OwnedRequest cancelled = make_request(secret, 3000);
    std::vector<OwnedJob> jobs;
    for (const OwnedRequest* request : {&stopped, &masked, &unread, &late, &cancelled})
      jobs.push_back(submit(*request));
    quire_job_cancel(jobs.back().get(), nullptr);
    for (const OwnedJob& job : jobs) {
      if (!job) continue;
      EXPECT_EQ(quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr), 1);
      std::string line(4096, '\0');
      const int64_t size = quire_job_explain(job.get(), line.data(), line.size(), nullptr);
      messages.push_back(line.substr(0, static_cast<size_t>(size)));
    }
    OwnedJob live = submit(cancelled);
    quire_cache_close(cache.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
    runtime.reset();
  }
  EXPECT_FALSE(sink.lines.empty()) << "nothing was logged: the test proves nothing";
  messages.insert(messages.end(), sink.lines.begin(), sink.lines.end());
  for (const std::string& message : messages) EXPECT_EQ(message.find(secret), std::string::npos) << message;
}

}  // namespace
}  // namespace quire::testing
