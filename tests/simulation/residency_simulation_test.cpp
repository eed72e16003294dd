// Three models on two devices that have memory for one or two of them, with random jobs, evictions, exchanged
// models, budgets that change as if other processes allocated memory, caches that grow and shrink, failing
// loads and failing allocations. Checks that no step runs without its weights, no byte is counted twice, no
// token is wrong, and every job ends. QUIRE_SIM_SEED runs one seed alone, QUIRE_SIM_EVENTS sets the total
// number of events.
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/allocation_faults.h"
#include "tests/support/engine_fakes.h"
#include "tests/support/fake_weight_residency.h"

namespace quire::testing {
namespace {

constexpr uint64_t kEventsPerSeed = 2000;
constexpr uint64_t kBudget = 100;
// A cache that grows: pages for one job at first.
constexpr int32_t kLeastPages = 4;
constexpr int32_t kChunkPages = 2;
constexpr uint64_t kPageBytes = 2;
#ifdef QUIRE_SANITIZED
constexpr uint64_t kNumEvents = 40'000;
#else
constexpr uint64_t kNumEvents = 200'000;
#endif

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

struct Counts {
  uint64_t events = 0;
  uint64_t steps = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t evictions = 0;
  uint64_t wakes = 0;
  uint64_t failed_wakes = 0;
  uint64_t waits = 0;
  uint64_t swaps = 0;
  uint64_t growths = 0;
  uint64_t shrinks = 0;
  uint64_t failed_allocations = 0;
};

// One run of a runtime; all events are a function of the seed.
class ResidencySimulation {
 public:
  explicit ResidencySimulation(uint64_t seed, Counts& counts) : random_(seed), counts_(counts) {
    RuntimeOptions options;
    options.clock = &clock_;
    options.threads = &threads_;
    options.memory_budgets = {{"card:0", kBudget}, {"card:1", kBudget}};
    runtime_ = Runtime::create(std::move(options));
    for (int i = 0; i < 3; ++i) models_.push_back(make_model());
  }

  void run(uint64_t num_events) {
    for (uint64_t i = 0; i < num_events && !::testing::Test::HasFailure(); ++i) {
      ++counts_.events;
      event();
      check();
    }
    settle();
  }

 private:
  struct SimulatedJob {
    std::shared_ptr<Job> job;
    Transcript seen;
    JobRequest request;
    bool cancelled = false;
  };
  struct Model {
    std::shared_ptr<FakeWeights> weights;
    std::shared_ptr<WeightResidency> residency;
    std::unique_ptr<FakeEngine> engine;
    std::vector<SimulatedJob> jobs;
    std::string grows_on;  // device of its cache's pages; empty: the cache does not grow
    int32_t num_pages_seen = kLeastPages;
    bool leaves = false;  // it was exchanged and is removed after its last job
  };

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  Model& any_model() { return models_[below(static_cast<uint32_t>(models_.size()))]; }

  Model make_model() {
    Model model;
    model.weights = std::make_shared<FakeWeights>();
    model.weights->name = "m" + std::to_string(++num_models_);
    const uint32_t where = below(4);
    if (where != 1) model.weights->bytes["card:0"] = 20 + below(60);
    if (where == 1 || where == 2) model.weights->bytes["card:1"] = 20 + below(60);
    if (below(2) == 0) model.weights->rest = 1 + below(10);
    model.residency =
        WeightResidency::create(runtime_, std::make_unique<FakeEvictableWeights>(runtime_, model.weights),
                                ResidencyState::standing_by);
    model.residency->set_priority(static_cast<int32_t>(below(3)));
    if (below(3) == 0) model.residency->set_idle_timeout(std::chrono::milliseconds(1 + below(50)));
    FakeEngineOptions options;
    options.runtime = runtime_;
    options.cache.start_thread = false;
    options.residency = model.residency;
    for (const auto& [device, bytes] : model.weights->bytes) options.devices.push_back(device);
    if (below(2) == 0) make_elastic(model, options);
    model.engine = std::make_unique<FakeEngine>(options);
    return model;
  }

  void make_elastic(Model& model, FakeEngineOptions& options) {
    model.grows_on = options.devices.front();
    options.limits.least_pages = options.limits.max_pages_per_sequence = kLeastPages;
    options.limits.chunk_pages = kChunkPages;
    options.max_seq_len = kLeastPages * options.limits.page_tokens;
    options.cache.page_idle_time = std::chrono::milliseconds(below(40));
    options.page_memory = [device = model.grows_on](int32_t num_pages) {
      return std::vector<MemoryRequest>{{device, kPageBytes * static_cast<uint64_t>(num_pages), "a cache"}};
    };
  }

  // Returns the bytes of the chunks added to the first pages, for which this test makes no lease.
  uint64_t grown_bytes(Model& model) {
    if (model.grows_on.empty()) return 0;
    const int32_t num_pages = model.engine->cache->thread().loop().kv().pool().num_pages();
    counts_.growths += num_pages > model.num_pages_seen ? 1 : 0;
    counts_.shrinks += num_pages < model.num_pages_seen ? 1 : 0;
    model.num_pages_seen = num_pages;
    return kPageBytes * static_cast<uint64_t>(num_pages - kLeastPages);
  }

  // Runs the action, sometimes with a failing allocation. An exception for that is ignored.
  template <typename Action>
  void with_faults(Action&& action) {
    std::optional<AllocationFault> fault;
    if (below(6) == 0) fault.emplace(1 + below(40), below(4) == 0 ? FaultSpan::for_ever : FaultSpan::once);
    try {
      action();
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
    if (fault && fault->num_failed() > 0) ++counts_.failed_allocations;
  }

  void submit() {
    Model& model = any_model();
    if (model.leaves) return;
    JobRequest request =
        greedy({1 + static_cast<TokenId>(below(3)), 2, 3}, 1 + static_cast<int32_t>(below(12)));
    if (below(5) == 0) request.total_deadline = std::chrono::milliseconds(1 + below(100));
    model.jobs.reserve(model.jobs.size() + 1);
    SimulatedJob entry;
    entry.request = request;
    with_faults([&] { entry.job = model.engine->cache->submit(std::move(request)); });
    if (entry.job != nullptr) model.jobs.push_back(std::move(entry));
  }

  void step() {
    Model& model = any_model();
    with_faults([&] {
      if (model.engine->cache->thread().run_once() != StepOutcome::advanced) return;
      ++counts_.steps;
      const AllocationFaultsOff off;
      EXPECT_TRUE(model.weights->is_there) << "a step without its weights";
    });
  }

  void swap() {
    Model& model = any_model();
    if (model.leaves || models_.size() > 6) return;
    model.leaves = true;
    models_.push_back(make_model());
    ++counts_.swaps;
  }

  void event() {
    Model& model = any_model();
    switch (below(24)) {
      case 0:
      case 1:
      case 2:
        return submit();
      case 3:
      case 4:
      case 5:
        return with_faults([this] { threads_.run_one(); });
      case 6:
        return with_faults([&] {
          const auto to = below(2) == 0 ? ResidencyState::standing_by : ResidencyState::on_disk;
          (void)model.residency->evict(to, Duration{0});
        });
      case 7:
        return with_faults([&] { (void)model.residency->wake(Duration{0}); });
      case 8:
        if (!model.jobs.empty()) {
          SimulatedJob& of = model.jobs[below(static_cast<uint32_t>(model.jobs.size()))];
          of.cancelled = true;
          of.job->cancel();
        }
        return;
      case 9:
        if (below(6) == 0) model.weights->failure = ErrorCode::io;
        return;
      case 10:
        // Another process uses memory, but always leaves enough for the largest model, so that jobs can end.
        return with_faults(
            [&] { runtime_->set_memory_budget(below(2) == 0 ? "card:0" : "card:1", 80 + below(60)); });
      case 11:
        clock_.advance(std::chrono::milliseconds(below(30)));
        return;
      case 12:
        if (below(8) == 0) return swap();
        return;
      case 13:
        return with_faults([this] {
          const MemoryLease lease = runtime_->lease_memory({"card:0", 10 + below(90), "the cache of x"});
        });
      default:
        return step();
    }
  }

  void judge(const SimulatedJob& of) {
    const JobResult result = of.job->result();
    if (result.reason == FinishReason::failed) {
      ++counts_.failed;
      const bool is_known = result.error == ErrorCode::io || result.error == ErrorCode::out_of_memory ||
                            result.error == ErrorCode::deadline || result.error == ErrorCode::closed;
      EXPECT_TRUE(is_known) << error_code_name(result.error) << ": " << result.message;
    } else if (result.reason == FinishReason::cancelled) {
      EXPECT_TRUE(of.cancelled);
    } else {
      ++counts_.completed;
      EXPECT_EQ(static_cast<int32_t>(of.seen.tokens.size()), of.request.max_new_tokens);
      TokenIds& known = known_[of.request.prompt];
      const size_t common = std::min(known.size(), of.seen.tokens.size());
      EXPECT_TRUE(
          std::equal(known.begin(), known.begin() + static_cast<ptrdiff_t>(common), of.seen.tokens.begin()));
      if (of.seen.tokens.size() > known.size()) known = of.seen.tokens;
    }
  }

  void read() {
    for (Model& model : models_) {
      for (SimulatedJob& of : model.jobs) {
        while (auto next = of.job->poll(Duration{0})) add_event(of.seen, std::move(*next));
        if (of.job->state() == JobState::finished) judge(of);
      }
      std::erase_if(model.jobs, [](const SimulatedJob& of) { return of.job->state() == JobState::finished; });
    }
  }

  // Removes exchanged models without jobs, and models whose engine ended because of a failed allocation.
  void drop_models() {
    for (Model& model : models_) {
      const bool has_failed = model.engine->cache->thread().queue().shut();
      if (has_failed && !model.leaves) {
        model.leaves = true;
        fresh_ += 1;
      }
    }
    const auto gone = [&](const Model& model) { return model.leaves && model.jobs.empty(); };
    for (const Model& model : models_) {
      if (!gone(model)) continue;
      count(model);
      gone_.push_back(model.weights);
    }
    std::erase_if(models_, gone);
    for (; fresh_ > 0; --fresh_) models_.push_back(make_model());
  }

  void count(const Model& model) {
    const ResidencyStats figures = model.residency->figures();
    counts_.evictions += figures.evictions;
    counts_.wakes += figures.wakes;
    counts_.failed_wakes += figures.failed_wakes;
    counts_.waits += figures.waits;
  }

  static uint64_t bytes_of(const FakeWeights& weights, std::string_view device) {
    const auto entry = weights.bytes.find(device);
    if (entry == weights.bytes.end()) return 0;
    if (weights.is_there) return entry->second;
    return weights.has_rest ? weights.rest : 0;
  }

  void check() {
    read();
    drop_models();
    std::erase_if(gone_, [](const auto& weights) { return !weights->is_there && !weights->has_rest; });
    for (const char* device : {"card:0", "card:1"}) {
      uint64_t taken = 0;
      for (const auto& weights : gone_) taken += bytes_of(*weights, device);
      for (Model& model : models_) {
        if (model.grows_on == device) taken += grown_bytes(model);
        taken += bytes_of(*model.weights, device);
      }
      ASSERT_EQ(runtime_->leased_bytes(device), taken);
    }
  }

  void settle() {
    runtime_->set_memory_budget("card:0", kBudget);
    runtime_->set_memory_budget("card:1", kBudget);
    for (int round = 0; round < 400; ++round) {
      clock_.advance(std::chrono::milliseconds(1));
      for (Model& model : models_) model.engine->run_to_idle();
      while (threads_.run_one()) {
      }
      check();
    }
    for (const Model& model : models_) {
      EXPECT_TRUE(model.jobs.empty())
          << model.weights->name << " has jobs that do not end: " << model.jobs.front().job->explain();
      count(model);
    }
    models_.clear();
    while (threads_.run_one()) {
    }
    EXPECT_EQ(runtime_->leased_bytes("card:0") + runtime_->leased_bytes("card:1"), 0U);
  }

  std::mt19937_64 random_;
  Counts& counts_;
  SimulatedClock clock_;
  DeferredThreads threads_;
  std::shared_ptr<Runtime> runtime_;
  std::vector<Model> models_;
  // Weights of removed models: a residency that is moving needs them until its thread has run.
  std::vector<std::shared_ptr<FakeWeights>> gone_;
  std::map<TokenIds, TokenIds> known_;  // continuation of each prompt
  int num_models_ = 0;
  int fresh_ = 0;
};

TEST(ResidencySimulation, NoByteIsCountedTwiceAndNoJobIsLost) {
  Counts counts;
  const uint64_t num_events = from_environment("QUIRE_SIM_EVENTS", kNumEvents);
  const uint64_t only = from_environment("QUIRE_SIM_SEED", 0);
  for (uint64_t seed = only != 0 ? only : 1; counts.events < num_events; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ResidencySimulation(seed, counts).run(kEventsPerSeed);
    if (only != 0 || ::testing::Test::HasFailure()) break;
  }
  std::cout << counts.events << " events, " << counts.steps << " steps, " << counts.completed
            << " jobs completed, " << counts.failed << " failed, " << counts.waits << " waits, "
            << counts.wakes << " wakes, " << counts.failed_wakes << " failed wakes, " << counts.evictions
            << " evictions, " << counts.swaps << " swaps, " << counts.growths << " growths, "
            << counts.shrinks << " shrinks, " << counts.failed_allocations << " failed allocations\n";
  if (only != 0) return;
  EXPECT_GT(counts.completed, counts.events / 100)
      << "a simulation that never meets the hard cases proves nothing";
  EXPECT_GT(counts.evictions, counts.events / 1000);
  EXPECT_GT(counts.failed_wakes, counts.events / 2000);
  EXPECT_GT(counts.swaps, counts.events / 2000);
  EXPECT_GT(counts.growths, counts.events / 1000);
  EXPECT_GT(counts.shrinks, counts.events / 2000);
  EXPECT_GT(counts.failed_allocations, counts.events / 200);
}

}  // namespace
}  // namespace quire::testing
