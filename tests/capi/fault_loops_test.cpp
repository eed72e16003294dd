// Every allocation of every call of the C interface fails, once and for ever. The call then fails with
// QUIRE_ERROR_OUT_OF_MEMORY or succeeds, freeing works, nothing leaks, and a later job generates its usual
// text.
#include <array>
#include <functional>
#include <iostream>

#include "tests/capi/capi_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/fault_loop.h"

namespace quire::testing {
namespace {

constexpr int64_t kForEver = QUIRE_WAIT_FOREVER;
constexpr std::string_view kPrompt = "a prompt of some length, for pages";

// Objects of a scenario, created before the fault and freed after it.
struct Scene {
  World world;
  OwnedQueue queue{quire_queue_create(world.runtime.get(), nullptr)};
  OwnedRequest request = make_request(kPrompt, 8);
  OwnedJob job;
  std::array<char, 1 << 14> text{};
  std::array<float, 1 << 14> values{};
  std::array<int32_t, 256> tokens{};
  Report report;

  // Checks that a call fails only for lack of memory. Returns true if it succeeded.
  bool worked(bool success) {
    EXPECT_TRUE(success || report.code() == QUIRE_ERROR_OUT_OF_MEMORY) << report.message();
    EXPECT_TRUE(success || report.has_message()) << "an error of code " << report.code();
    return success;
  }
  template <typename Handle>
  bool worked(const Handle* handle) {
    return worked(handle != nullptr);
  }
  bool worked(int64_t size) { return worked(size >= 0); }
  quire_error** out() { return report.out(); }

  void submit() { job = OwnedJob(quire_job_submit(world.cache.get(), request.get(), out())); }
  void submit_and_finish() {
    submit();
    collect(job.get());
  }
  // Takes events until the last. A poll that finds no memory leaves the event to the next one.
  void poll_to_the_end(int max_failures) {
    int num_failures = 0;
    while (num_failures <= max_failures) {
      const OwnedEvent event(next_event(job.get(), kForEver, out()));
      if (event) {
        (void)quire_event_tokens(event.get(), tokens.data(), tokens.size(), out());
        continue;
      }
      if (report.code() == QUIRE_ERROR_OK) return;
      worked(false);
      ++num_failures;
    }
  }
};

void nothing(Scene&) {}
void submit(Scene& scene) {
  scene.submit();
}
void submit_and_finish(Scene& scene) {
  scene.submit_and_finish();
}

struct Scenario {
  const char* name;
  std::function<void(Scene&)> prepare;
  std::function<void(Scene&)> act;  // runs while the fault is armed
};

void make_runtime_with_options(Scene& s) {
  const OwnedRuntimeOptions options(quire_runtime_options_create(s.out()));
  if (!s.worked(options.get())) return;
  s.worked(quire_runtime_options_set_num_threads(options.get(), 2, s.out()) == 1);
  s.worked(quire_runtime_options_set_device(options.get(), "cpu", 3, s.out()) == 1);
  const OwnedRuntime runtime(quire_runtime_create(options.get(), s.out()));
  if (!s.worked(runtime.get())) return;
  s.worked(quire_runtime_device_name(runtime.get(), 0, s.text.data(), s.text.size(), s.out()));
  s.worked(quire_runtime_device_description(runtime.get(), 0, s.text.data(), s.text.size(), s.out()));
}

void load_with_options(Scene& s) {
  const OwnedModelOptions options(quire_model_options_create(s.out()));
  if (!s.worked(options.get())) return;
  const std::string& path = tiny_model_path();
  if (!s.worked(quire_model_options_set_path(options.get(), path.data(), path.size(), s.out()) == 1)) return;
  const OwnedModel model(
      quire_model_load(s.world.runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, s.out()));
  s.worked(model.get());
}

void make_cache_with_options(Scene& s) {
  const OwnedCacheOptions options(quire_cache_options_create(s.out()));
  if (!s.worked(options.get())) return;
  s.worked(quire_cache_options_set_max_tokens(options.get(), 512, s.out()) == 1);
  s.worked(quire_cache_required_bytes(s.world.model.get(), options.get(), s.out()));
  const OwnedCache cache(quire_cache_create(s.world.model.get(), options.get(), s.out()));
  s.worked(cache.get());
}

void make_request_with_everything(Scene& s) {
  const OwnedRequest request(quire_job_request_create(s.out()));
  if (!s.worked(request.get())) return;
  s.worked(quire_job_request_set_prompt_text(request.get(), kPrompt.data(), kPrompt.size(), s.out()) == 1);
  s.worked(quire_job_request_set_prompt_tokens(request.get(), s.tokens.data(), 100, s.out()) == 1);
  s.worked(quire_job_request_set_stop_tokens(request.get(), s.tokens.data(), 5, s.out()) == 1);
  s.worked(quire_job_request_add_stop_text(request.get(), kPrompt.data(), kPrompt.size(), s.out()) == 1);
  s.worked(quire_job_request_clear_stop_texts(request.get(), s.out()) == 1);
}

void take_events_of_a_queue(Scene& s) {
  if (!s.worked(quire_job_request_set_queue(s.request.get(), s.queue.get(), s.out()) == 1)) return;
  s.submit();
  if (!s.worked(s.job.get())) return;
  for (int num_failures = 0; num_failures < 3;) {
    const OwnedEvent event(next_event(s.queue.get(), kForEver, s.out()));
    if (!event) {
      s.worked(false);
      ++num_failures;
    } else if (quire_event_finish_reason(event.get(), nullptr) != QUIRE_FINISH_NONE) {
      return;
    }
  }
}

// Offers space for eight events when there are one or a few.
void drain_a_queue(Scene& s) {
  std::array<quire_event*, 8> events{};
  for (int num_failures = 0; num_failures < 3;) {
    const int64_t count =
        quire_queue_drain(s.queue.get(), kForEver, nullptr, events.data(), events.size(), s.out());
    bool is_last = false;
    for (int64_t i = 0; i < count; ++i) {
      const OwnedEvent event(events[static_cast<size_t>(i)]);
      is_last = is_last || quire_event_finish_reason(event.get(), nullptr) != QUIRE_FINISH_NONE;
    }
    if (is_last) return;
    if (!s.worked(count)) ++num_failures;
  }
}

void submit_many(Scene& s) {
  std::array<quire_job*, 3> jobs{};
  if (!s.worked(quire_job_submit_many(s.world.cache.get(), s.request.get(), jobs.data(), jobs.size(),
                                      s.out()) == 1)) {
    EXPECT_EQ(jobs, decltype(jobs){}) << "nothing was written";
    return;
  }
  for (quire_job* const job : jobs) EXPECT_EQ(quire_job_free(job, nullptr), 1);
}

void steer(Scene& s) {
  s.worked(quire_job_pause(s.job.get(), s.out()) == 1);
  s.worked(quire_job_set_priority(s.job.get(), 3, s.out()) == 1);
  const OwnedRequest as_parent(quire_job_request_create(s.out()));
  if (s.worked(as_parent.get())) {
    const OwnedJob fork(quire_job_fork(s.job.get(), as_parent.get(), s.out()));
    s.worked(fork.get());
  }
  s.worked(quire_job_rewind(s.job.get(), 1, s.out()) == 1);
  s.worked(quire_job_explain(s.job.get(), s.text.data(), s.text.size(), s.out()));
  s.worked(quire_job_resume(s.job.get(), s.out()) == 1);
  s.worked(quire_job_cancel(s.job.get(), s.out()) == 1);
}

void translate(Scene& s) {
  quire_model* const model = s.world.model.get();
  const int64_t count = quire_model_encode(model, kPrompt.data(), kPrompt.size(), 1, 1, s.tokens.data(),
                                           s.tokens.size(), s.out());
  if (!s.worked(count)) return;
  s.worked(quire_model_decode(model, s.tokens.data(), static_cast<size_t>(count), 1, s.text.data(),
                              s.text.size(), s.out()));
  s.worked(quire_model_tensor_name(model, 0, s.text.data(), s.text.size(), s.out()));
  s.worked(quire_model_tensor_format(model, 0, s.text.data(), s.text.size(), s.out()));
}

void tell(Scene& s) {
  const OwnedStats stats(quire_cache_stats(s.world.cache.get(), s.out()));
  if (s.worked(stats.get())) {
    const OwnedStats of_namespace(quire_stats_namespace(stats.get(), 0, s.out()));
    s.worked(of_namespace.get());
  }
  s.worked(quire_cache_metrics(s.world.cache.get(), "tiny", 4, s.text.data(), s.text.size(), s.out()));
  s.worked(quire_diagnose(QUIRE_DIAGNOSE_JSON, s.text.data(), s.text.size(), s.out()));
  s.worked(quire_diagnose(QUIRE_DIAGNOSE_TEXT, s.text.data(), s.text.size(), s.out()));
}

void look_up(Scene& s) {
  quire_cache* const cache = s.world.cache.get();
  s.worked(quire_cache_query(cache, s.request.get(), kForEver, nullptr, s.out()));
  const int64_t pin = quire_cache_pin(cache, s.request.get(), 1'000'000'000, kForEver, nullptr, s.out());
  if (s.worked(pin)) s.worked(quire_cache_unpin(cache, pin, s.out()) == 1);
}

void judge(Scene& s) {
  const int32_t ids[] = {3, 14, 15, 92, 65};
  const OwnedRequest scored(quire_job_request_create(s.out()));
  if (!s.worked(scored.get())) return;
  if (!s.worked(quire_job_request_set_prompt_tokens(scored.get(), ids, 5, s.out()) == 1)) return;
  s.worked(quire_cache_score(s.world.cache.get(), scored.get(), 0, kForEver, nullptr, s.values.data(),
                             s.values.size(), s.out()));
  s.worked(quire_cache_logits(s.world.cache.get(), scored.get(), kForEver, nullptr, s.values.data(),
                              s.values.size(), s.out()));
}

void embed(Scene& s) {
  s.worked(quire_job_request_set_kind(s.request.get(), QUIRE_JOB_KIND_EMBED, s.out()) == 1);
  s.submit();
  if (!s.worked(s.job.get())) return;
  s.worked(quire_job_wait(s.job.get(), kForEver, nullptr, s.out()) == 1);
  s.worked(quire_job_embedding(s.job.get(), s.values.data(), s.values.size(), s.out()));
}

void make_small_things(Scene& s) {
  const OwnedQueue queue(quire_queue_create(s.world.runtime.get(), s.out()));
  s.worked(queue.get());
  const OwnedCancel cancel(quire_cancel_create(s.out()));
  s.worked(cancel.get());
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"runtime", nothing, make_runtime_with_options},
      {"load", nothing, load_with_options},
      {"cache", nothing, make_cache_with_options},
      {"request", nothing, make_request_with_everything},
      {"queue and cancel", nothing, make_small_things},
      {"submit and poll", nothing,
       [](Scene& s) {
         s.submit();
         if (s.worked(s.job.get())) s.poll_to_the_end(3);
       }},
      {"submit many", nothing, submit_many},
      {"poll of a finished job", submit_and_finish, [](Scene& s) { s.poll_to_the_end(3); }},
      {"events of a queue", nothing, take_events_of_a_queue},
      {"draining a queue",
       [](Scene& s) {
         quire_job_request_set_queue(s.request.get(), s.queue.get(), nullptr);
         s.submit();
       },
       drain_a_queue},
      {"steering", submit, steer},
      {"encode and decode", nothing, translate},
      {"stats, metrics, diagnose", submit_and_finish, tell},
      {"query and pin", submit_and_finish, look_up},
      {"score and logits", nothing, judge},
      {"embedding", [](Scene& s) { s.request = make_prompt(kPrompt); }, embed},
      {"close", submit,
       [](Scene& s) {
         s.worked(quire_cache_close(s.world.cache.get(), QUIRE_WAIT_FOREVER, nullptr, s.out()) == 1);
       }},
  };
  return all;
}

class CapiFaultLoops : public ::testing::Test {
 protected:
  // Runs a scenario and returns true if the fault occurred.
  bool run(const Scenario& scenario, const FaultPoint& point, FaultScope scope) {
    SCOPED_TRACE(::testing::Message() << scenario.name << ", " << point);
    const int64_t live_before = num_live_allocations();
    const int64_t handles_before = num_live_handles();
    int64_t num_failed = 0;
    {
      Scene scene;
      scenario.prepare(scene);
      {
        const AllocationFault fault(point.nth, point.span, scope);
        scenario.act(scene);
        num_failed = fault.num_failed();
      }
      check_survivors(scene);
    }
    EXPECT_EQ(num_live_handles(), handles_before);
    EXPECT_EQ(num_live_allocations(), live_before) << "blocks have leaked";
    return num_failed > 0 && !HasFailure();
  }

  void check_survivors(Scene& scene) {
    Report report;
    const OwnedRequest request = make_request(kPrompt, 12);
    const OwnedJob job(quire_job_submit(scene.world.cache.get(), request.get(), report.out()));
    if (!job) {
      EXPECT_EQ(report.code(), QUIRE_ERROR_CLOSED) << report.message();
      return;
    }
    EXPECT_EQ(collect(job.get()).tokens, canary_) << "the canary";
  }

  std::vector<int32_t> canary() {
    const World world;
    const OwnedRequest request = make_request(kPrompt, 12);
    const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
    return collect(job.get()).tokens;
  }

  std::vector<int32_t> canary_ = canary();
};

// Returns the kinds and texts of all events.
std::string events_of(quire_response_parser* parser) {
  std::string all;
  std::array<char, 256> text{};
  while (quire_response_parser_next(parser, nullptr) == 1) {
    const int64_t size = quire_response_parser_text(parser, text.data(), text.size(), nullptr);
    all += std::to_string(quire_response_parser_kind(parser, nullptr));
    all += std::string(text.data(), static_cast<size_t>(size)) + ";";
  }
  return all;
}

// A call of a response parser that runs out of memory can be repeated.
TEST(CapiResponseFaults, ACallThatRanOutOfMemoryIsRepeated) {
  constexpr std::string_view kTools =
      R"([{"name": "go", "parameters": {"properties": {"a": {"type": "array"}}}}])";
  constexpr std::string_view kAnswer =
      "It is <tool_call>go<arg_key>a</arg_key><arg_value>[1, 2,]</arg_value></tool_call>";
  const auto read = [&](const FaultPoint* point) {
    const OwnedResponseParser parser(quire_response_parser_create("glm", 3, nullptr));
    EXPECT_EQ(quire_response_parser_set_tools(parser.get(), kTools.data(), kTools.size(), nullptr), 1);
    bool failed = false;
    const auto act = [&] {
      return quire_response_parser_feed(parser.get(), kAnswer.data(), kAnswer.size(), nullptr) == 1 &&
             quire_response_parser_finish(parser.get(), nullptr) == 1;
    };
    if (point != nullptr) {
      const AllocationFault fault(point->nth, point->span);
      failed = quire_response_parser_feed(parser.get(), kAnswer.data(), kAnswer.size(), nullptr) != 1;
    }
    EXPECT_TRUE(point == nullptr || failed ? act()
                                           : quire_response_parser_finish(parser.get(), nullptr) == 1);
    return std::pair(events_of(parser.get()), failed);
  };
  const std::string expected = read(nullptr).first;
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    const auto [events, failed] = read(&point);
    EXPECT_EQ(events, expected) << point;
    return failed;
  });
  EXPECT_GT(num_points, 20);
}

constexpr int64_t kStride = testing::stride_if_sanitized(13);

TEST_F(CapiFaultLoops, EveryAllocationOfEveryCall) {
  // Run everything once, so that allocations that are kept for ever are not counted.
  for (const Scenario& scenario : scenarios())
    run(scenario, {1 << 30, FaultSpan::once}, FaultScope::this_thread);
  int64_t total = 0;
  for (const Scenario& scenario : scenarios()) {
    const int64_t num_points = for_each_fault(
        [&](const FaultPoint& point) { return run(scenario, point, FaultScope::this_thread); }, kStride);
    std::cout << scenario.name << ": " << num_points << " faults\n";
    EXPECT_GT(num_points, 0) << scenario.name;
    total += num_points;
    if (HasFailure()) return;
  }
  std::cout << total << " faults in all\n";
}

// A job that the engine ends for lack of memory has a message too, although there is no memory for it.
TEST_F(CapiFaultLoops, AScoreWhoseEngineFailsHasAMessage) {
  for (int64_t nth = 1; nth <= 200; nth += kStride) {
    Scene scene;
    const AllocationFault fault(nth, FaultSpan::for_ever, FaultScope::all_threads);
    const int32_t ids[] = {3, 14, 15, 92, 65};
    const OwnedRequest scored(quire_job_request_create(scene.out()));
    if (!scored || quire_job_request_set_prompt_tokens(scored.get(), ids, 5, scene.out()) == 0) continue;
    const int64_t num_scores = quire_cache_score(scene.world.cache.get(), scored.get(), 0, kForEver, nullptr,
                                                 scene.values.data(), scene.values.size(), scene.out());
    EXPECT_TRUE(num_scores >= 0 || scene.report.has_message()) << nth;
  }
}

}  // namespace
}  // namespace quire::testing
