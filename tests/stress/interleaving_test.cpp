// Runs every pair of entry points at the same time, on one job of one cache, while the engine's thread runs.
// The order depends on a seed and the machine. In any order, each call returns a permitted status, the job
// ends once, and nothing leaks.
#include <array>
#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/events/event_queue.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::minutes(5);
// More than 10,000 schedules in total. The thread sanitizer takes twenty times as long.
#ifdef QUIRE_SANITIZED
constexpr int32_t kSchedulesPerPair = 10;
#else
constexpr int32_t kSchedulesPerPair = 64;
#endif

JobRequest request_of(int32_t index) {
  JobRequest request;
  request.prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, index % 60};
  request.max_new_tokens = 12;
  request.sampling.temperature = 0.0F;
  request.max_unread_events = 4;
  return request;
}

// One cache with one job that both threads use; handles are shared as in the C interface.
struct World {
  World() : queue(std::make_shared<EventQueue>()), engine(drawing()) {
    JobRequest request = request_of(0);
    request.queue = queue;
    job = engine.cache->submit(std::move(request));
    id = job->id();
  }

  static FakeEngineOptions drawing() {
    FakeEngineOptions options;
    make_drawing(options.limits);
    return options;
  }
  std::shared_ptr<Job> handle() const { return std::atomic_load(&job); }

  std::shared_ptr<EventQueue> queue;
  FakeEngine engine;
  std::shared_ptr<Job> job;
  std::atomic<int32_t> num_terminal{0};
  std::atomic<bool> dropped{false};
  std::atomic<bool> queue_closed{false};

  void note(const Event& event) { num_terminal += event.job == id && event.terminal() ? 1 : 0; }
  JobId id;
};

using Call = void (*)(World&);
struct EntryPoint {
  const char* name;
  Call call;
};

// Calls on a job do nothing after its handle is dropped, as with a freed token of the C interface.
template <typename Act>
void on_job(World& world, Act&& act) {
  if (const auto job = world.handle()) act(*job);
}

constexpr std::array kEntryPoints{
    EntryPoint{"submit", [](World& w) { w.engine.cache->submit(request_of(1))->wait(kPatience); }},
    EntryPoint{"submit and drop", [](World& w) { w.engine.cache->submit(request_of(2)); }},
    EntryPoint{"submit_many",
               [](World& w) {
                 for (const auto& job : w.engine.cache->submit_many(request_of(3), 3)) job->wait(kPatience);
               }},
    EntryPoint{"poll",
               [](World& w) {
                 on_job(w, [&](Job& job) {
                   while (const auto event = job.poll(Duration{0})) w.note(*event);
                 });
               }},
    EntryPoint{"poll to the end",
               [](World& w) {
                 on_job(w, [&](Job& job) {
                   job.resume();
                   while (const auto event = job.poll(std::chrono::milliseconds(1))) w.note(*event);
                 });
               }},
    EntryPoint{"wait",
               [](World& w) { on_job(w, [](Job& job) { job.wait(std::chrono::microseconds(50)); }); }},
    EntryPoint{"cancel", [](World& w) { on_job(w, [](Job& job) { job.cancel(); }); }},
    EntryPoint{"pause", [](World& w) { on_job(w, [](Job& job) { job.pause(); }); }},
    EntryPoint{"resume", [](World& w) { on_job(w, [](Job& job) { job.resume(); }); }},
    EntryPoint{"set_priority", [](World& w) { on_job(w, [](Job& job) { job.set_priority(2); }); }},
    EntryPoint{"rewind", [](World& w) { on_job(w, [](Job& job) { job.rewind(1); }); }},
    EntryPoint{"fork", [](World& w) { on_job(w, [](Job& job) { job.fork({})->wait(kPatience); }); }},
    EntryPoint{"tell",
               [](World& w) {
                 on_job(w, [](Job& job) {
                   EXPECT_FALSE(job.explain().empty());
                   EXPECT_GE(job.result().new_tokens, 0);
                   job.state();
                 });
               }},
    EntryPoint{"drop",
               [](World& w) {
                 w.dropped = true;
                 std::atomic_store(&w.job, std::shared_ptr<Job>());
               }},
    EntryPoint{"query_prefix",
               [](World& w) { w.engine.cache->query_prefix(request_of(0).prompt, "", kPatience); }},
    EntryPoint{"pin and unpin",
               [](World& w) {
                 Engine& cache = *w.engine.cache;
                 cache.unpin(cache.pin_prefix(request_of(0).prompt, "", Duration{0}, kPatience));
               }},
    EntryPoint{"stats",
               [](World& w) {
                 EXPECT_EQ(w.engine.cache->stats().pages.total, 64);
                 EXPECT_FALSE(w.engine.cache->metrics_text("c").empty());
               }},
    EntryPoint{"drain",
               [](World& w) {
                 for (const Event& event : w.queue->drain(16, Duration{0})) w.note(event);
               }},
    EntryPoint{"close the queue",
               [](World& w) {
                 w.queue_closed = true;
                 w.queue->close();
               }},
    EntryPoint{"close", [](World& w) { w.engine.cache->close(); }},
};

// Accepts the codes returned if the other call closed the cache, or if there is nothing to pin.
void call_and_check(const EntryPoint& entry, World& world) {
  try {
    entry.call(world);
  } catch (const Error& error) {
    const bool known = error.code() == ErrorCode::closed || error.code() == ErrorCode::not_found;
    EXPECT_TRUE(known) << entry.name << ": " << error.what();
  }
}

void run_schedule(const EntryPoint& one, const EntryPoint& other, uint64_t seed) {
  std::mt19937_64 random(seed);
  World world;
  std::atomic<int32_t> num_ready{0};
  const auto run = [&](const EntryPoint& entry, uint64_t num_yields) {
    ++num_ready;
    while (num_ready < 2) std::this_thread::yield();
    for (; num_yields > 0; --num_yields) std::this_thread::yield();
    call_and_check(entry, world);
  };
  std::thread second([&, num_yields = random() % 8] { run(other, num_yields); });
  run(one, random() % 8);
  second.join();

  if (const auto job = world.handle()) {
    try {
      job->resume();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::closed);
    }
    while (const auto event = job->poll(kPatience)) world.note(*event);
  }
  EXPECT_TRUE(world.num_terminal == 1 || (world.dropped && world.num_terminal == 0))
      << world.num_terminal << " terminal events";
  world.engine.cache->close();
  EXPECT_EQ(world.engine.cache->thread().queue().num_live(), 0U);
  EXPECT_EQ(world.engine.cache->thread().queue().num_queued(), 0);
  EXPECT_EQ(world.engine.cache->stats().pages.referenced, 0);
  EXPECT_EQ(world.engine.cache->thread().loop().kv().audit(), "");
}

TEST(InterleavingTest, EveryPairOfEntryPoints) {
  uint64_t seed = 0;
  for (size_t i = 0; i < kEntryPoints.size(); ++i) {
    for (size_t j = i; j < kEntryPoints.size(); ++j) {
      for (int32_t schedule = 0; schedule < kSchedulesPerPair; ++schedule) {
        SCOPED_TRACE(::testing::Message()
                     << kEntryPoints[i].name << " beside " << kEntryPoints[j].name << ", seed " << ++seed);
        run_schedule(kEntryPoints[i], kEntryPoints[j], seed);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  RecordProperty("schedules", static_cast<int>(seed));
}

}  // namespace
}  // namespace quire::testing
