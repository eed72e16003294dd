// Who takes part in the next step. A pure function on plain structs: no clock, no locks, no memory between
// calls, so that every rule can be tested by itself.
// Continuous batching with chunked prefill and preemption.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/kv/page_demand.h"

namespace quire {

struct PolicyLimits {
  int32_t max_running_lanes = 0;
  int32_t max_step_tokens = 0;
  int32_t max_logit_rows = 0;
  int32_t page_tokens = 0;
  SlotCounts windows{};  // of the groups of layers with one; 0 after the last
  int32_t max_overtakes = 0;
  Duration ageing_interval{0};  // 0: none
};

// What a job is to compute in one lane.
struct LaneView {
  gsl::span<const TokenId> tokens;  // all of them, candidates included
  int32_t num_pending = 0;          // tokens after those that a step under way draws
  int32_t reserve_tokens = 0;       // length to hold pages for at once; 0: as needed
  PageDemand demand;
};

// One job that has its sequences in the cache, and the lane that it speaks with.
struct RunningView : LaneView {
  uint64_t order = 0;    // of submit
  int32_t priority = 0;  // with what it had aged by when it was admitted
  TimePoint deadline = TimePoint::max();
  bool runnable = true;         // not paused, and its reader keeps up
  bool suspect = false;         // took part in a step that failed as a whole: to be run alone
  bool wants_all_rows = false;  // logits of every token it computes
  int32_t num_candidates = 0;   // in each lane
  int32_t num_forced = 0;       // as of Lane: they are computed with the token before them
  int32_t guide = -1;           // into PolicyInput::guides: its second lane; -1: none
  int32_t name_space = 0;
};

// Whether it has come to its next token, drafts and forced ones counted, and has no more of a prompt to
// compute in any lane.
bool generates(const RunningView& job, gsl::span<const LaneView> guides);

// One job that waits, for the first time or again.
struct WaitingView {
  uint64_t order = 0;
  int32_t priority = 0;
  Duration waited{0};
  TimePoint deadline = TimePoint::max();
  int32_t overtaken = 0;  // by jobs that were admitted while it did not fit
  bool runnable = true;
  bool wants_all_rows = false;
  int32_t reserve_tokens = 0;
  gsl::span<const TokenId> tokens;
  gsl::span<const TokenId> guide_tokens{};  // of its second lane; empty: none
  int32_t name_space = 0;
};

struct NamespaceView {
  int32_t max_running_jobs = 0;  // 0: no limit
  int32_t max_pages = 0;         // 0: no limit
  int32_t running_jobs = 0;
  int32_t held_pages = 0;  // in the tables of its running jobs
  double served = 0.0;     // tokens by weight, for the fair share
};

struct PolicyInput {
  PolicyLimits limits;
  int32_t available_pages = 0;
  gsl::span<const RunningView> running;
  gsl::span<const WaitingView> waiting;
  gsl::span<const NamespaceView> name_spaces;
  // What a waiting job would find; asked only of the few that may be admitted.
  std::function<PageDemand(int32_t)> demand_of;
  SlotCounts unused_slots{};
  gsl::span<const LaneView> guides{};
  std::function<PageDemand(int32_t)> demand_of_guide{};  // as demand_of
};

struct Grant {
  int32_t index = 0;  // into running, or into waiting where it is admitted with this step
  bool admits = false;
  int32_t max_tokens = 0;      // 0: only its guide takes part
  int32_t num_logit_rows = 1;  // of each lane
  int32_t guide_tokens = 0;
  int32_t priority = 0;  // of an admitted job, with its age; protects it from preemption by younger ones
};

// A waiting job that was looked at and not admitted, and why.
struct BlockedJob {
  enum class Cause : int32_t {
    pages,          // more than there are
    slots,          // all places are taken
    quota_jobs,     // its namespace runs as many as it may
    quota_pages,    // its namespace would hold more than it may
    shared_prefix,  // another prompt of this step computes its next page
  };
  int32_t waiting_idx = -1;
  Cause cause = Cause::pages;
  int32_t needed_pages = 0;
  int32_t group = -1;  // whose slots they are; -1: pages
  bool gates = false;  // it was overtaken often enough: nobody passes it any more
};

struct PolicyOutput {
  // To be preempted before anything else; the rest is empty then, and the function is to be asked again.
  std::optional<int32_t> preempt;     // into running
  std::vector<Grant> grants;          // decoding jobs first
  std::vector<int32_t> overtaken;     // into waiting, once for each admitted job that passed it
  std::optional<BlockedJob> blocked;  // the first for want of pages or places
  std::vector<BlockedJob> held_back;  // by rank; a job in neither list had no turn in this step
  bool lacks_pages = false;           // with more of them nobody would be preempted, or one more begin

  void clear();
};

// Rules, in this order:
// - A suspect runs alone.
// - The lanes of a job come to their end together: the last token of each, with its candidates, is computed
// in
//   one step. Each lane has a place among the running ones, a token and a row of a step, and pages.
// - Jobs that decode come first, by rank; then pieces of prompts, by rank; then new jobs, by rank, as long as
//   tokens of the step are left. Rank is priority, then deadline, then order of submit; waiting jobs gain one
//   priority per ageing interval, and within equal priority and deadline the namespace that was served least
//   goes first.
// - Where pages run out the lowest job that ranks below the one in need is preempted; the lowest of all
//   preempts itself, even where it holds no page. A waiting job preempts a running one only if its priority,
//   without age, is higher, or if the running one rests: it is paused, or its reader is slow.
// - Slots of layers with a window count like pages; but a window gives them back, and a step takes more than
//   a job holds after it. So what a step lacks because others of it took slots waits for the next step, and a
//   job begins where there are enough for it to go on to its end in the smallest pieces. Where it takes its
//   pages at once, what its window will still take is kept for it.
// - A job that its namespace has no page left for gets one by the same rule among the jobs of that
//   namespace: a lower one is preempted, or it waits for lower ones that take part in this step, or, as the
//   lowest, preempts itself. A namespace never holds more pages than it may.
// - A prompt whose next page another prompt of this step is computing waits for that page.
// - A waiting job that does not fit may be overtaken max_overtakes times.
void plan_step(const PolicyInput& input, PolicyOutput& output);

// Pages, and slots of a group with a window, that a job may need at most, for the check at submit.
int32_t pages_of_whole_job(int32_t num_tokens, int32_t page_tokens);
int32_t slots_of_whole_job(int32_t num_tokens, int32_t window, int32_t page_tokens);

}  // namespace quire
