// Drafting: adds draft tokens to the jobs of the next step, as many as are expected to save time.
//
// On a device that computes steps ahead, a step with drafts cannot be followed before its tokens are known,
// so drafts cost the look-ahead as well. The engine therefore is in one of two modes: it drafts, or it looks
// ahead. The mode follows from the measured rates of both, and the other one is tried once in kProbeInterval
// steps.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/drafting/draft_choice.h"
#include "core/drafting/drafter.h"
#include "core/engine/loop/live_jobs.h"
#include "core/engine/loop/network_drafting.h"
#include "core/engine/loop/token_sampling.h"
#include "core/engine/scheduler/step_sizing.h"
#include "core/step/step_plan.h"

namespace quire {

// Tokens of a step.
struct StepCount {
  int32_t num_tokens = 0;
  int32_t num_drafts = 0;  // among them
  int32_t num_lanes = 0;
};

// Not thread-safe.
class Drafting {
 public:
  // Number of steps without drafts after which one is tried with a draft for some jobs.
  static constexpr int32_t kProbeInterval = JobDrafts::kProbeInterval;

  // Uses the drafter of the engine's options: a draft network only if the executor has one. Without a drafter
  // it proposes nothing. `num_tokens`: number of valid token ids.
  Drafting(LiveJobs& jobs, TokenSampling& sampling, Executor& executor, int32_t num_tokens);

  // True if a draft network computes beside the steps, so that its time belongs to them.
  bool has_network() const { return network_.has_value(); }

  // Adds draft tokens to the running jobs. Called before a step is planned; not for a step that was issued
  // ahead.
  void propose();
  // True if the step after the running one may have drafts, so that it must not be issued ahead.
  bool holds_back() const noexcept;
  // Counts the tokens of a step. Called before its tokens are committed.
  StepCount count(const StepPlan& plan) noexcept;
  // Measures a step that has been computed. `period` is the time since the step before it was computed, if it
  // is known.
  void observe(const StepCount& step, std::optional<Duration> period, bool is_issued) noexcept;
  // Lets the draft network compute its rows of a step, between the commits of its pages and of its tokens.
  // `is_followed`: the pass after the step was issued ahead.
  void follow(const StepPlan& plan, const Batch& batch, bool is_followed);
  // Lets the draft network propose tokens for the next step. Called after the tokens were committed.
  void propose_by_network();
  // Passes the answers of the jobs that ended with this step to the drafter.
  void remember(const StepPlan& plan);
  // Adds the outcome of a verified step to the acceptance of its jobs. Called before it is committed.
  void learn(const StepPlan& plan) noexcept;

 private:
  // A job that may have drafts in the step.
  struct Draftee {
    JobRecord* job;
    int32_t num_drafts;
  };

  void find_draftees();
  void set_reasons(DraftReason reason) const;
  int32_t room_of(const JobRecord& job) const;
  bool computes_prompts() const;
  void draft();
  void choose();
  void limit_tokens();
  bool is_probe_due() const;
  double loss_of_look_ahead() const;
  bool is_clock_still() const;
  bool prefers_look_ahead() const;
  bool has_drafter() const { return drafter_ != nullptr || network_.has_value(); }
  DraftReason reason_without_proposal(const JobRecord& job) const;
  bool wants_drafts(const StepPlan& plan) const;
  bool may_be_followed_later(const StepPlan& plan, const Batch& batch) const;
  int32_t num_worth_drafting(const JobRecord& job) const;
  int32_t most_worth_trying(const JobRecord& job) const;
  template <typename Action>
  Duration time_network(const Action& action);
  static bool is_probe_of(const JobRecord& job);
  double seconds_to_follow(const JobRecord& job) const;
  bool is_crowded() const;
  bool looks_ahead() const;
  void probe();
  double time_of(int32_t num_tokens) const;
  void weigh_modes(double rate, int32_t num_tokens);

  LiveJobs& jobs_;
  TokenSampling& sampling_;
  std::shared_ptr<Drafter> drafter_;        // may be null
  std::optional<NetworkDrafting> network_;  // replaces the drafter
  DraftChooser chooser_;
  std::vector<Draftee> draftees_;
  std::vector<DraftRequest> requests_;
  std::vector<DraftOffer> offers_;
  std::vector<int32_t> counts_;
  DraftStep step_;  // the next step without drafts
  // Measured steps that only generate.
  struct Pace {
    StepTimes issued;  // ahead
    StepTimes others;
    // By index_of_first_time: the first measured time of a step, which may have loaded or recorded something.
    // It counts if the second one is not shorter.
    std::vector<Duration> first;
    int32_t num_still = 0;  // last steps that took no time on the clock
    // Average of the rate of steps that may have drafts, relative to that of steps issued ahead. Begins above
    // 1, so that drafts are tried.
    double gain = 1.1;
    int32_t num_plain_steps = 0;  // since the last one with drafts or the last probe
    double saved_seconds = 0.0;   // for probes; below 0 if they took more than expected
    // Expected time of the running step without its probe; 0: it has none.
    double seconds_without_probe = 0.0;
    Duration by_network{0};     // time of the draft network in the running step
    StepTimes follows;          // of the network's rows of steps, by their number
    double pass_seconds = 0.0;  // average time of a pass of its proposals
    size_t next_probed = 0;     // index of the offer with which the next probe begins
  };
  Pace pace_;
  DraftAcceptance acceptance_;  // of all jobs; a new job begins with it
};

}  // namespace quire
