// Deterministic simulation: the real scheduler and step loop on a fake device, with a simulated clock and
// fault injection, driven by one seed. After every event the invariants are checked, and outputs are compared
// with an oracle that runs each job alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/events/event_queue.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/oracle.h"
#include "tests/support/allocation_faults.h"
#include "tests/support/engine_fakes.h"
#include "tests/support/page_replay.h"

namespace quire::testing {

struct SimulationStats {
  uint64_t events = 0;
  uint64_t steps = 0;
  uint64_t jobs = 0;
  uint64_t ended = 0;
  std::array<uint64_t, 5> cancels{};  // by JobState
  uint64_t rejected = 0;
  uint64_t preemptions = 0;
  uint64_t device_faults = 0;
  uint64_t shard_faults = 0;  // steps that failed after some of their shards had written
  uint64_t failed_allocations = 0;
  uint64_t lost_devices = 0;
  uint64_t closes = 0;
  uint64_t forks = 0;
  uint64_t rewinds = 0;
  uint64_t full_quotas = 0;   // events after which a namespace held its whole quota of pages
  uint64_t snapshots = 0;     // events after which there was a snapshot of a state
  uint64_t full_windows = 0;  // events after which all slots of a group were in use
  uint64_t deduplicated = 0;
  uint64_t cached_tokens = 0;
  uint64_t pages_restored = 0;
  uint64_t pages_followed = 0;  // pages the page reader had, summed over all events
  uint64_t followed = 0;        // steps issued ahead and used
  uint64_t in_vain = 0;         // steps issued ahead and discarded
  uint64_t masked = 0;          // rows drawn by the device with a mask
  uint64_t constrained = 0;     // jobs with a constraint
  uint64_t guided = 0;          // jobs with guidance (two lanes)
  uint64_t grown = 0;           // events after which a cache had more pages
  uint64_t shrunk = 0;          // events after which a cache had fewer pages
  uint64_t candidates = 0;
  uint64_t accepted = 0;  // accepted draft tokens
  uint64_t digest = 0;    // hash of all events that readers received, in order

  void add(const SimulationStats& more);
};

// External view of a job, and its expected output.
struct SimulatedJob {
  std::shared_ptr<Job> job;  // null after its handle is dropped
  JobId id;
  JobRequest request;  // the prompt of a fork includes the tokens generated before
  Expectation expected;
  std::string held_text;  // held text of its parent, if it is a fork
  int32_t num_said = 0;   // likewise, number of prompt tokens its constraint has accepted
  TimePoint submitted;
  Transcript seen;
  // Rewinds: emitted token `first` has the position `second` in `expected`.
  std::vector<std::pair<size_t, size_t>> jumps;
  size_t emitted_before = 0;
  size_t base = 0;
  bool paused = false;
  bool cancelled = false;
  bool forked = false;
  bool was_rewound = false;  // even if no reader noticed
  bool had_candidates = false;
  bool in_queue = false;
  bool never_fits = false;  // a fork that must be rejected
  bool ended = false;       // the engine reported its end, and the end was judged

  bool rewound() const { return !jumps.empty(); }
};

enum class Mixture : int32_t {
  varied,   // all actions, in other proportions for each seed
  cancels,  // mostly cancels, in every state of a job
};

// A series of engines, one after another. All events are a function of mixture and seed.
class Simulation {
 public:
  explicit Simulation(uint64_t seed, Mixture mixture = Mixture::varied);

  // Runs num_events events, then lets every job end. Returns the first violation, or an empty string.
  std::string run(uint64_t num_events);
  const SimulationStats& stats() const { return stats_; }

 private:
  using Action = void (Simulation::*)();
  using Jobs = std::map<uint64_t, SimulatedJob>;  // by tag

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }
  int32_t int_below(uint32_t limit) { return static_cast<int32_t>(below(limit)); }
  Duration millis_below(uint32_t limit) { return std::chrono::milliseconds(below(limit)); }

  // simulation.cpp: setup and course.
  void choose_setup();
  void choose_windows();
  void choose_action_weights(Mixture mixture);
  void make_engine();
  void end_engine();
  void begin_event();
  void event();
  void step();
  void check_step(StepOutcome outcome);
  void settle();
  void settle_step();
  StepLoop& loop() { return engine_->cache->thread().loop(); }
  JobQueue& door() { return engine_->cache->thread().queue(); }

  // actions.cpp: actions of callers.
  void submit();
  void submit_many();
  void fork();
  void rewind();
  void propose();
  std::shared_ptr<Drafter> make_drafter();
  void cancel();
  void cancel_within_step();
  void toggle_pause();
  void change_priority();
  void drop();
  void read_some();
  void drain_some();
  void pass_time();
  void arm_fault();
  void fail_allocation_of_step();
  void allocate_for_others();
  void others_leave();
  void pin();
  void query();
  void close();
  TokenIds random_prompt();
  JobRequest random_request();
  void random_edits(JobRequest& request);
  void guide(JobRequest& request);
  int32_t num_places() const;
  void random_limits(JobRequest& request);
  void refuse(const JobRequest& request, ErrorCode code);
  SimulatedJob& add_job(std::shared_ptr<Job> job, JobRequest request, std::string held_text,
                        int32_t num_said = 0);
  SimulatedJob* any_job();
  SimulatedJob* any_live_job();
  void fork_from(SimulatedJob& parent);
  void read(SimulatedJob& model, uint32_t max_events);
  void drain(uint32_t max_events);
  void take(SimulatedJob& model, Event event);
  // Runs `call`, sometimes with a failing allocation; returns the code that it threw.
  template <typename Call>
  ErrorCode attempt(Call&& call);
  ErrorCode must_refuse(const JobRequest& request) const;

  // invariants.cpp: checks after every event.
  void check_all();
  void judge_endings();
  void judge(SimulatedJob& model, const JobResult& result);
  void judge_failure(SimulatedJob& model, const JobResult& result);
  bool missed_deadline(const SimulatedJob& model, const JobResult& result) const;
  void check_transcript(const SimulatedJob& model);
  void check_output(const SimulatedJob& model);
  void check_pages();
  void check_followed_pages();
  void check_slots(PageId page, gsl::span<const TokenId> tokens);
  void poison_empty_slots();
  void check_room();
  void check_counts();
  void check_quotas();
  void check_running(SimulatedJob& model);
  void check_progress(StepOutcome outcome);
  const PlannedLane* planned_of(const Batch& batch, int32_t sequence);
  uint64_t owner_of(const Batch& batch, int32_t sequence);
  void check_owner(const Batch& batch, int32_t sequence, const SimulatedJob& model);
  void before_step(const Batch& batch);
  void check_name_space(const Batch& batch, int32_t sequence, int8_t space);
  void note_warning(std::string_view line);
  void forget_ended();
  std::string describe(const SimulatedJob& model) const;
  void violation(const std::string& what);

  const uint64_t seed_;
  std::mt19937_64 random_;
  SimulatedClock clock_;
  uint32_t guided_one_in_ = 1;  // one in so many generating jobs
  bool drafts_ = false;         // the cache has a drafter
  bool is_roomy_ = false;       // jobs rarely wait, and draws are plain, so that steps can be issued ahead
  int32_t num_shards_ = 1;      // of the device
  ExecutorLimits limits_;
  EngineOptions cache_options_;
  TokenIds end_tokens_;
  std::vector<TokenIds> prefixes_;
  std::vector<std::pair<uint32_t, Action>> action_weights_;  // with cumulative weights
  bool allocations_fail_ = false;

  std::unique_ptr<Oracle> oracle_;
  std::unique_ptr<FaultInjector> faults_;
  std::unique_ptr<FakeEngine> engine_;
  std::vector<MemoryLease> others_;  // leases of others for memory that the cache could grow into
  int32_t num_pages_seen_ = 0;
  std::shared_ptr<EventQueue> queue_;
  std::shared_ptr<EventQueue> page_queue_;
  PageReplay replay_;
  bool page_events_may_lack_ = false;  // an allocation failed since the events were last known to be complete
  Jobs jobs_;
  std::vector<JobId> dropped_;     // to be removed with the next step
  Job* cancel_in_step_ = nullptr;  // to be cancelled while the device computes
  std::vector<PinId> pins_;
  uint64_t last_tag_ = 0;

  // State of the current event:
  ErrorCode engine_ended_ = ErrorCode::ok;  // error with which every live job must end
  int64_t failed_allocations_ = 0;
  bool all_allocations_failed_ = false;
  bool step_may_lack_memory_ = false;
  int32_t ended_for_memory_ = 0;

  uint64_t steps_without_progress_ = 0;
  uint64_t progress_mark_ = 0;
  SimulationStats stats_;
  std::string violation_;
};

}  // namespace quire::testing
