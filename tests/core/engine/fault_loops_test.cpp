// Fault injection: every allocation of every call of the engine fails once. The call or its job ends with
// out_of_memory, nothing leaks, the other jobs generate the same text as alone, and so does a later job.
#include <atomic>
#include <iostream>

#include <gtest/gtest.h>

#include "core/engine/events/event_queue.h"
#include "tests/support/fault_loop.h"
#include "tests/support/random_schedule.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::hours(24 * 7);  // on the clock below: ten minutes

JobRequest request_of(int32_t index) {
  JobRequest request;
  for (int32_t i = 0; i < 11 + index; ++i) request.prompt.push_back((i * 7 + index / 2) % kVocab);
  request.max_new_tokens = 6 + index;
  request.sampling.temperature = index % 2 == 0 ? 0.0F : 0.9F;
  request.sampling.repetition_penalty = 1.2F;
  request.want_log_probs = true;
  request.num_top_log_probs = 2;
  request.stop_strings = {"zzzz"};
  request.want_progress = true;
  request.name_space = "one";
  if (index == 2) request.kind = JobKind::score;
  return request;
}

// A cache with three jobs, one of which scores, and their readers.
class World {
 public:
  explicit World(std::optional<FakeNetworkOptions> network = {})
      : engine(options(std::move(network))), queue(std::make_shared<EventQueue>()) {
    jobs.reserve(8);
    outcomes.reserve(8);
  }

  static FakeEngineOptions options(std::optional<FakeNetworkOptions> network = {}) {
    FakeEngineOptions options;
    options.network = std::move(network);
    if (options.network) options.cache.drafting = {DrafterKind::network, 3};
    options.cache.start_thread = false;
    options.limits.num_pages = 12;
    make_drawing(options.limits);
    options.cache.max_chunk_tokens = 8;
    options.cache.check_invariants = false;  // the audit would fail together with the step
    return options;
  }

  void submit(int32_t index) {
    JobRequest request = request_of(index);
    request.queue = index == 1 ? queue : nullptr;
    keep(engine.cache->submit(std::move(request)));
  }

  void keep(std::shared_ptr<Job> job) {
    const AllocationFaultsOff off;
    jobs.push_back(std::move(job));
    outcomes.emplace_back();
  }

  void submit_all() {
    for (int32_t index = 0; index < 3; ++index) submit(index);
  }

  void step(int32_t count) {
    for (int32_t i = 0; i < count; ++i) engine.cache->thread().run_once();
  }

  void read(size_t index) {
    while (auto event = jobs[index]->poll(Duration{0})) take(index, std::move(*event));
  }

  void drain() {
    for (Event& event : queue->drain(100, Duration{0})) take(1, std::move(event));
  }

  void take(size_t index, Event event) {
    const AllocationFaultsOff off;
    JobOutcome& outcome = outcomes[index];
    outcome.top_log_probs.insert(outcome.top_log_probs.end(), event.top_log_probs.begin(),
                                 event.top_log_probs.end());
    add_event(outcome.said, std::move(event));
  }

  FakeEngine engine;
  std::shared_ptr<EventQueue> queue;
  std::vector<std::shared_ptr<Job>> jobs;
  std::vector<JobOutcome> outcomes;
};

struct Scenario {
  const char* name;
  std::function<void(World&)> prepare;
  std::function<void(World&)> act;  // runs while the fault is armed
};

void nothing(World&) {}
void submit_all(World& world) {
  world.submit_all();
}
void run_half_way(World& world) {
  world.submit_all();
  world.step(4);
}
void run_to_the_end(World& world) {
  world.submit_all();
  world.engine.run_to_idle();
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"submit", nothing, [](World& world) { world.submit(0); }},
      {"submit_many", nothing, [](World& world) { world.engine.cache->submit_many(request_of(1), 3); }},
      {"admission", submit_all, [](World& world) { world.step(1); }},
      {"prefill", submit_all, [](World& world) { world.step(3); }},
      {"decoding", run_half_way, [](World& world) { world.step(2); }},
      {"to the end", run_half_way, [](World& world) { world.step(30); }},
      {"reading", run_to_the_end, [](World& world) { world.read(0); }},
      {"draining", run_to_the_end, [](World& world) { world.drain(); }},
      {"fork", run_half_way,
       [](World& world) {
         world.keep(world.jobs[0]->fork({}));
         world.step(1);
       }},
      {"rewind", run_half_way,
       [](World& world) {
         world.jobs[0]->rewind(0);
         world.step(1);
       }},
      {"pause and resume", run_half_way,
       [](World& world) {
         world.jobs[1]->pause();
         world.step(1);
         world.jobs[1]->resume();
         world.step(1);
       }},
      {"set_priority", run_half_way,
       [](World& world) {
         world.jobs[1]->set_priority(3);
         world.step(1);
       }},
      {"query", run_half_way,
       [](World& world) { world.engine.cache->query_prefix(request_of(0).prompt, "one", Duration{0}); }},
      {"pin and unpin", run_to_the_end,
       [](World& world) {
         Engine& cache = *world.engine.cache;
         // If unpin fails, the pin expires later.
         cache.unpin(cache.pin_prefix(request_of(0).prompt, "one", Duration{1}, Duration{0}));
         world.step(1);
       }},
      {"telling", run_half_way,
       [](World& world) {
         world.engine.cache->stats();
         world.engine.cache->metrics_text("cache");
         for (const auto& job : world.jobs) {
           job->explain();
           job->result();
         }
       }},
      {"close", run_half_way, [](World& world) { world.engine.cache->close(); }},
      {"a whole life", nothing,
       [](World& world) {
         world.submit_all();
         for (int32_t i = 0; i < 30; ++i) {
           world.step(1);
           world.read(0);
           world.drain();
         }
       }},
  };
  return all;
}

std::vector<JobOutcome> outcomes_alone() {
  std::vector<JobOutcome> alone;
  for (int32_t index = 0; index < 3; ++index) {
    FakeEngine engine(World::options());
    alone.push_back(run_alone(*engine.cache, request_of(index)));
  }
  return alone;
}

class FaultLoopsTest : public ::testing::Test {
 protected:
  // Checks that the remaining jobs work as if nothing had happened.
  void check_survivors(World& world, const FaultPoint& point) {
    Engine& cache = *world.engine.cache;
    const ErrorCode error = cache.stats().engine_error;
    if (error == ErrorCode::ok) {
      for (const auto& job : world.jobs) job->resume();
      world.engine.run_to_idle();
    } else {
      EXPECT_TRUE(error == ErrorCode::closed || point.span == FaultSpan::for_ever) << error_code_name(error);
    }
    for (size_t i = 0; i < world.jobs.size(); ++i) {
      world.read(i);
      check_job(world, i);
    }
    cache.thread().run_once();
    EXPECT_EQ(cache.stats().pages.referenced, 0);
    EXPECT_EQ(cache.thread().loop().kv().audit(), "");
    EXPECT_EQ(cache.thread().queue().num_live(), 0U);
    EXPECT_EQ(cache.thread().queue().num_queued(), 0);
    if (error == ErrorCode::ok) {
      EXPECT_EQ(difference(run_alone(cache, request_of(1)), alone_[1]), "") << "the canary";
    }
  }

  void check_job(World& world, size_t index) {
    Job& job = *world.jobs[index];
    JobOutcome& outcome = world.outcomes[index];
    EXPECT_EQ(outcome.said.num_terminal, 1);
    EXPECT_EQ(outcome.said.num_after_terminal, 0);
    const bool whole = outcome.said.terminal.kind == EventKind::finished;
    if (!whole) {
      const ErrorCode error = outcome.said.terminal.error;
      EXPECT_TRUE(error == ErrorCode::out_of_memory || error == ErrorCode::closed) << error_code_name(error);
      return;
    }
    if (index >= alone_.size()) return;  // a fork, whose text is checked elsewhere
    outcome.scores = job.scores();
    const bool rewound = outcome.said.tokens.size() > alone_[index].said.tokens.size();
    if (rewound) return;
    EXPECT_EQ(difference(outcome, alone_[index]), "") << "job " << index;
  }

  // Returns true if the fault was triggered.
  bool run(const Scenario& scenario, const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << scenario.name << ", " << point);
    const int64_t live_before = num_live_allocations();
    int64_t num_failed = 0;
    {
      World world(network_);
      scenario.prepare(world);
      ErrorCode code = ErrorCode::ok;
      {
        const AllocationFault fault(point.nth, point.span);
        try {
          scenario.act(world);
        } catch (const Error& error) {
          code = error.code();
        } catch (const std::bad_alloc&) {
          code = ErrorCode::out_of_memory;
        }
        num_failed = fault.num_failed();
      }
      EXPECT_TRUE(code == ErrorCode::ok || code == ErrorCode::out_of_memory) << error_code_name(code);
      check_survivors(world, point);
    }
    EXPECT_EQ(num_live_allocations(), live_before) << "blocks are left behind";
    return num_failed > 0 && !HasFailure();
  }

  std::vector<JobOutcome> alone_ = outcomes_alone();
  std::optional<FakeNetworkOptions> network_ = {};  // of the model
};

TEST_F(FaultLoopsTest, EveryAllocationOfEveryCall) {
  // Allocations made once and kept (names of locales, tables of the standard library) happen before counting.
  for (const Scenario& scenario : scenarios()) run(scenario, {1 << 30, FaultSpan::once});
  int64_t total = 0;
  for (const Scenario& scenario : scenarios()) {
    const int64_t num_points = for_each_fault([&](const FaultPoint& point) { return run(scenario, point); });
    std::cout << scenario.name << ": " << num_points << " faults\n";
    total += num_points;
    if (HasFailure()) return;
  }
  std::cout << total << " faults in all\n";
}

// A fault in the rows or the proposals of a draft network costs drafts alone.
TEST_F(FaultLoopsTest, EveryAllocationWithADraftNetwork) {
  for (const bool reads_states : {false, true}) {
    network_ = FakeNetworkOptions{reads_states, 0.7};
    for (const Scenario& scenario : scenarios()) {
      const std::string_view name = scenario.name;
      if (name != "decoding" && name != "to the end" && name != "fork" && name != "rewind") continue;
      run(scenario, {1 << 30, FaultSpan::once});
      const int64_t num_points =
          for_each_fault([&](const FaultPoint& point) { return run(scenario, point); });
      std::cout << name << ": " << num_points << " faults\n";
      if (HasFailure()) return;
    }
  }
}

// The device is lost in a step of two jobs (the third has its scores), and allocating the error message
// fails.
TEST_F(FaultLoopsTest, ALostDeviceIsReportedEvenIfMemoryRunsOut) {
  const int64_t num_points = for_each_fault([](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    World world;
    run_half_way(world);
    EXPECT_EQ(world.jobs[2]->state(), JobState::finished);
    bool is_lost = false;
    world.engine.executor->before_step = [&](const Batch&) {
      const AllocationFaultsOff off;
      is_lost = true;
      throw Error(ErrorCode::device_lost, "the device is gone");
    };
    int64_t num_failed = 0;
    {
      const AllocationFault fault(point.nth, point.span);
      world.step(1);
      num_failed = fault.num_failed();
    }
    if (is_lost) {
      EXPECT_EQ(world.engine.cache->stats().engine_error, ErrorCode::device_lost);
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(world.jobs[i]->result().error, ErrorCode::device_lost);
    }
    return num_failed > 0 && !HasFailure();
  });
  EXPECT_GT(num_points, 10);
}

// Runs a thousand times as fast as real time, because the pauses between attempts are waited for in full.
class FastClock final : public Clock {
 public:
  TimePoint now() const override { return start_ + kFactor * (steady_clock().now() - start_); }
  bool wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, TimePoint deadline,
                  const std::function<bool()>& ready) const override {
    const TimePoint on_the_wall =
        deadline == TimePoint::max() ? deadline : start_ + (deadline - start_) / kFactor;
    return steady_clock().wait_until(condition, lock, on_the_wall, ready);
  }

 private:
  static constexpr int64_t kFactor = 1000;
  const TimePoint start_ = steady_clock().now();
};

// The same with the engine's own thread; either thread may meet the fault.
TEST_F(FaultLoopsTest, EveryAllocationOfARunWithAThread) {
  const FastClock clock;
  int64_t num_points = 0;
  for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << "a life with a thread, " << point);
    FakeEngineOptions options = World::options();
    options.cache.start_thread = true;
    options.clock = &clock;
    FakeEngine engine(options);
    std::shared_ptr<Job> job;
    int64_t num_failed = 0;
    {
      const AllocationFault fault(point.nth, point.span, FaultScope::all_threads);
      try {
        job = engine.cache->submit(request_of(0));
        job->wait(kPatience);
      } catch (const std::bad_alloc&) {
      }
      num_failed = fault.num_failed();
    }
    if (job != nullptr) {
      const Transcript said = read_all(*job, kPatience);
      EXPECT_EQ(said.num_terminal, 1);
      EXPECT_TRUE(said.terminal.kind == EventKind::finished ||
                  said.terminal.error == ErrorCode::out_of_memory)
          << error_code_name(said.terminal.error);
    }
    if (engine.cache->stats().engine_error == ErrorCode::ok) {
      EXPECT_EQ(read_all(*engine.cache->submit(request_of(1)), kPatience).tokens, alone_[1].said.tokens);
    } else {
      EXPECT_EQ(point.span, FaultSpan::for_ever);
    }
    num_points += num_failed > 0 ? 1 : 0;
    return num_failed > 0 && !HasFailure();
  });
  EXPECT_GT(num_points, 50);
  std::cout << num_points << " faults\n";
}

// Starts threads until the fault point, then fails.
class FailingThreads final : public ThreadFactory {
 public:
  explicit FailingThreads(const FaultPoint& point) : point_(point) {}
  std::unique_ptr<Thread> start(const std::string& name, std::function<void()> body) const override {
    const int64_t count = ++count_;
    const bool fails = point_.span == FaultSpan::once ? count == point_.nth : count >= point_.nth;
    if (fails) throw Error(ErrorCode::out_of_memory, "no thread for {}", name);
    return system_threads().start(name, std::move(body));
  }
  bool failed() const { return count_ >= point_.nth; }

 private:
  FaultPoint point_;
  mutable std::atomic<int64_t> count_{0};
};

TEST_F(FaultLoopsTest, EveryThreadOfACache) {
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const FailingThreads threads(point);
    FakeEngineOptions options = World::options();
    options.cache.start_thread = true;
    options.cache.watchdog_timeout = std::chrono::minutes(5);
    options.threads = &threads;
    const auto code_of_making = [&] {
      try {
        FakeEngine engine(options);
        EXPECT_EQ(read_all(*engine.cache->submit(request_of(1)), kPatience).tokens, alone_[1].said.tokens);
      } catch (const Error& error) {
        return error.code();
      }
      return ErrorCode::ok;
    };
    const ErrorCode first = code_of_making();
    EXPECT_EQ(first, threads.failed() ? ErrorCode::out_of_memory : ErrorCode::ok);
    const bool struck = first != ErrorCode::ok;
    if (struck && point.span == FaultSpan::once) {
      EXPECT_EQ(code_of_making(), ErrorCode::ok);
    }
    return struck && !HasFailure();
  });
  EXPECT_EQ(num_points, 4) << "the engine's and the watchdog's, once and for ever";
}

TEST_F(FaultLoopsTest, EveryAllocationOfMakingACache) {
  FakeEngine first(World::options());  // see EveryAllocationOfEveryCall: allocations made once
  const int64_t num_points = for_each_fault([](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const int64_t live_before = num_live_allocations();
    bool struck = false;
    {
      std::unique_ptr<FakeEngine> engine;
      const AllocationFault fault(point.nth, point.span);
      try {
        engine = std::make_unique<FakeEngine>(World::options());
      } catch (const std::bad_alloc&) {
      }
      struck = fault.num_failed() > 0;
      const AllocationFaultsOff off;
      EXPECT_EQ(engine == nullptr, struck);
    }
    EXPECT_EQ(num_live_allocations(), live_before);
    return struck && !HasFailure();
  });
  std::cout << num_points << " faults\n";
}

}  // namespace
}  // namespace quire::testing
