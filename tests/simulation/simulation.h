// The real scheduler and step loop on a fake device, a simulated clock and a fault injector, driven by one
// seed. After every event the contract's invariants are checked against an oracle that runs each job alone.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/engine/event_queue.h"
#include "core/sampling/sampler.h"
#include "tests/support/engine_fakes.h"

namespace quire::testing {

struct SimulationStats {
  uint64_t events = 0;
  uint64_t jobs = 0;
  uint64_t finished = 0;
  uint64_t cancels = 0;
  uint64_t rejected = 0;
  uint64_t preemptions = 0;
  uint64_t faults = 0;
  uint64_t forks = 0;
  uint64_t rewinds = 0;
  uint64_t deduplicated = 0;
  uint64_t cached_tokens = 0;
};

// One life of one engine. Everything that happens is a function of the seed.
class Simulation {
 public:
  explicit Simulation(uint64_t seed);

  // Runs num_events events, then lets every job come to its end. The first violation, or nothing.
  std::string run(uint64_t num_events);
  const SimulationStats& stats() const { return stats_; }

 private:
  // What is known of a job from outside, and what it must do.
  struct Model {
    std::shared_ptr<Job> job;
    JobRequest request;
    TokenIds expected;            // new tokens, from the first on, as far as it can get alone
    bool expect_numeric = false;  // it ends with a numeric fault behind `expected`
    Transcript seen;
    // Rewinds: from emitted token `first` on, the position in `expected` is `second`.
    std::vector<std::pair<size_t, size_t>> jumps;
    size_t emitted_before = 0;
    size_t base = 0;
    bool paused = false;
    bool may_expire = false;
    bool cancelled = false;
    bool dropped = false;
    bool forked = false;
    bool announced_to_queue = false;
  };

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }

  void make_engine();
  void event();
  void submit();
  JobRequest random_request();
  TokenIds random_prompt();
  void fill_expected(Model& model);
  void fork(Model& parent);
  void rewind(Model& model);
  void cancel(Model& model);
  void toggle_pause(Model& model);
  void read(Model& model, uint32_t max_events);
  void drain_queue(uint32_t max_events);
  void take(Model& model, Event event);
  void step();
  void arm_fault();
  void pin_or_query();
  void settle();

  Model* any_model();
  void check_terminal(Model& model);
  void check_tokens(Model& model);
  std::string describe(const Model& model) const;
  void check_pages();
  void check_sequences();
  void check_cancelled();
  void forget_finished();
  void violation(const std::string& what);

  const uint64_t seed_;
  std::mt19937_64 random_;
  SimulatedClock clock_;
  ExecutorLimits limits_;
  CacheOptions cache_options_;
  TokenIds end_tokens_;
  std::unique_ptr<FakeEngine> engine_;
  std::shared_ptr<EventQueue> queue_;
  std::unique_ptr<Sampler> sampler_;
  std::vector<TokenIds> prefixes_;
  std::map<uint64_t, Model> models_;  // by tag
  uint64_t last_tag_ = 0;
  bool device_lost_ = false;
  uint64_t faults_armed_ = 0;
  bool lose_device_ = false;
  std::vector<PinId> pins_;
  SimulationStats stats_;
  std::string violation_;
};

}  // namespace quire::testing
