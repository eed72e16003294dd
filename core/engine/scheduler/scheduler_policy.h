// Scheduling policy: continuous batching with chunked prefill and preemption. Chooses the jobs of the next
// step.
//
// A pure function on plain structs, without clock, locks or state between calls, so that each rule can be
// tested alone.
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
  SlotCounts windows{};  // window of each group of sliding-window layers; 0 after the last
  int32_t max_overtakes = 0;
  Duration ageing_interval{0};  // 0: no ageing
};

// Tokens of a job in one lane.
struct LaneView {
  gsl::span<const TokenId> tokens;  // all tokens, candidates included
  int32_t num_pending = 0;          // tokens that the running step will add
  int32_t reserve_tokens = 0;  // length to reserve pages for at admission; 0: pages are allocated as needed
  PageDemand demand;
};

// A job whose sequences are in the cache. The base is the lane that generates its output.
struct RunningView : LaneView {
  uint64_t order = 0;    // of submission
  int32_t priority = 0;  // including the increase by ageing at its admission
  TimePoint deadline = TimePoint::max();
  bool runnable = true;         // not paused, and its reader is not too slow
  bool suspect = false;         // took part in a step that failed as a whole; must run alone
  bool wants_all_rows = false;  // needs the logits of every computed token
  int32_t num_candidates = 0;   // draft tokens in each lane
  int32_t num_forced = 0;       // as in Lane: computed together with the token before them
  int32_t guide = -1;           // index of its second lane in PolicyInput::guides; -1: none
  int32_t name_space = 0;
};

// True if the job computes its next token, drafts and forced tokens included, and no lane has more of its
// prompt to compute.
bool generates(const RunningView& job, gsl::span<const LaneView> guides);

// A job that waits, for the first time or after a preemption.
struct WaitingView {
  uint64_t order = 0;
  int32_t priority = 0;
  Duration waited{0};
  TimePoint deadline = TimePoint::max();
  int32_t overtaken = 0;  // number of later jobs admitted before it because it did not fit
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
  int32_t held_pages = 0;  // in the page tables of its running jobs
  double served = 0.0;     // tokens divided by weight, for the fair share
};

struct PolicyInput {
  PolicyLimits limits;
  int32_t available_pages = 0;
  gsl::span<const RunningView> running;
  gsl::span<const WaitingView> waiting;
  gsl::span<const NamespaceView> name_spaces;
  // Returns the pages that a waiting job needs and finds cached. Called only for the few jobs that may be
  // admitted.
  std::function<PageDemand(int32_t)> demand_of;
  SlotCounts unused_slots{};
  gsl::span<const LaneView> guides{};
  std::function<PageDemand(int32_t)> demand_of_guide{};  // like demand_of, for the guide
};

struct Grant {
  int32_t index = 0;  // index in `running`, or in `waiting` if `admits`
  bool admits = false;
  int32_t max_tokens = 0;      // of the lane; 0: only the guide is computed
  int32_t num_logit_rows = 1;  // in each lane
  int32_t guide_tokens = 0;
  int32_t priority = 0;  // of an admitted job, including ageing; protects it from preemption by newer jobs
};

// A waiting job that was considered but not admitted, with the reason.
struct BlockedJob {
  enum class Cause : int32_t {
    pages,          // too few pages
    slots,          // all batch slots are in use
    quota_jobs,     // its namespace is at its limit of running jobs
    quota_pages,    // it would exceed the pages of its namespace
    shared_prefix,  // another prompt in this step computes its next page
  };
  int32_t waiting_idx = -1;
  Cause cause = Cause::pages;
  int32_t needed_pages = 0;
  int32_t group = -1;  // window group whose slots are too few; -1: pages
  bool gates = false;  // it was overtaken max_overtakes times: no job may overtake it any more
};

struct PolicyOutput {
  // If set, this job must be preempted first. The other fields are empty, and plan_step must be called again.
  std::optional<int32_t> preempt;     // index in `running`
  std::vector<Grant> grants;          // decoding jobs first
  std::vector<int32_t> overtaken;     // indices in `waiting`, once for each admitted job that overtook it
  std::optional<BlockedJob> blocked;  // first job that lacks pages or batch slots
  std::vector<BlockedJob> deferred;   // by rank; jobs in neither list were not considered in this step
  bool lacks_pages = false;  // with more pages no job would be preempted, or one more would be admitted

  bool lacks_places = false;  // with more running lanes no job would be preempted, or one more admitted

  void clear();
};

// Plans the next step. Rules, in this order:
// - A suspect job runs alone.
// - The lanes of a job reach their end together: their last tokens, with the candidates, are computed in one
//   step. Each lane takes a place among the running ones, a token and a logit row of the step, and pages.
// - Decoding jobs come first, by rank; then pieces of prompts, by rank; then new jobs, by rank, while the
//   step has tokens left. Rank is priority, then deadline, then order of submission. Waiting jobs gain one
//   priority per ageing interval; for equal priority and deadline the namespace that was served least comes
//   first.
// - If pages run out, the lowest job that ranks below the one in need is preempted. The lowest of all
//   preempts itself, even if it has no pages. A waiting job preempts a running one only if its priority
//   without ageing is higher, or if the running one rests: it is paused, or its reader is slow.
// - Slots of sliding-window layers count like pages, but a window frees slots as it moves, and a step needs
//   more slots than the job uses after it. So slots that are missing only because others use them in this
//   step are waited for until the next step. A job is admitted if the slots suffice to compute it to its end
//   in the smallest pieces. With reserve_tokens, the slots that its windows may still need are reserved for
//   it.
// - If a namespace is at its limit of pages, the same rule applies among its jobs: a job in need preempts a
//   lower one, waits for lower ones that take part in this step, or, as the lowest, preempts itself. A
//   namespace never exceeds its pages.
// - A prompt whose next page is being computed by another prompt in this step waits for that page.
// - A waiting job that does not fit may be overtaken max_overtakes times.
void plan_step(const PolicyInput& input, PolicyOutput& output);

// Return the maximum pages, and slots of a window group, that a job may need. Used for the check at
// submission.
int32_t pages_of_whole_job(int32_t num_tokens, int32_t page_tokens);
int32_t slots_of_whole_job(int32_t num_tokens, int32_t window, int32_t page_tokens);

}  // namespace quire
