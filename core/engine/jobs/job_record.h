// The engine's record of one job.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/message_text.h"
#include "core/drafting/draft_acceptance.h"
#include "core/drafting/drafter.h"
#include "core/engine/events/text_output.h"
#include "core/engine/jobs/exclusions.h"
#include "core/engine/jobs/job_channel.h"
#include "core/engine/jobs/job_request.h"
#include "core/sampling/sampler.h"
#include "core/step/lane.h"
#include "core/step/token_matcher.h"

namespace quire {

// Sum of the hidden states of a prompt, for mean pooling.
struct Pool {
  std::vector<double> sum;
  int32_t num_tokens = 0;  // number of states summed up
};

// Drafting of a job.
struct JobDrafts {
  std::unique_ptr<DraftState> state;  // of the drafter; null before its first request
  int32_t num_unchanged = 0;          // first tokens of the lane that are those of the last request
  // Empty until the first request; begins with the average of all jobs.
  std::optional<DraftAcceptance> acceptance;
  int32_t num_plain_steps = 0;      // since the last one with drafts
  TokenIds proposal;                // of the drafter, for the next step
  int32_t num_proposed_after = -1;  // tokens of the job that the proposal of a draft network continues
  int32_t num_recent = kMaxDrafts;  // of the last step with drafts
  // Steps that still have a draft of the network whatever it costs, so that its cost is measured.
  int32_t num_trials = kTrialSteps;
  // Steps without drafts of the network after which its cost is measured again.
  int32_t probe_interval = kProbeInterval;

  static constexpr int32_t kTrialSteps = 4;
  static constexpr int32_t kProbeInterval = 32;
  static constexpr int32_t kLongestProbeInterval = 1024;

  // Counts a step with drafts. Each measurement after which no drafts are used doubles the time to the next
  // one: the network must compute all tokens in between.
  void count_step_with_drafts(int32_t num_drafts) {
    const bool is_probe = num_plain_steps >= probe_interval;
    if (is_probe)
      probe_interval = std::min(2 * probe_interval, kLongestProbeInterval);
    else if (num_trials == 0)
      probe_interval = kProbeInterval;
    num_trials = is_probe ? kTrialSteps - 1 : std::max(num_trials - 1, 0);
    num_plain_steps = 0;
    num_recent = num_drafts;
  }
};

// Results of a step for a job: verify fills them in, commit applies them.
struct JobStep {
  std::vector<SampledToken> drawn;  // tokens sampled in this step, and forced tokens after the last of them
  int32_t num_forced = 0;           // number of forced tokens at the end of `drawn`
  FinishReason finish = FinishReason::unfinished;  // unless commit finds a stop string in the text
  std::vector<float> scores;        // of a scoring job: log probabilities of this step's tokens
  gsl::span<const float> raw_rows;  // of a scoring job: rows of logits, borrowed from the executor
  Pool pool;                        // of an embedding job
  std::vector<float> embedding;
  ErrorCode error = ErrorCode::ok;  // not ok: the job fails and the step's results are discarded
  std::string message;
  std::string parameter;  // at fault; empty for none

  void begin() noexcept {
    drawn.clear();
    num_forced = 0;
    scores.clear();
    raw_rows = {};
    finish = FinishReason::unfinished;
    error = ErrorCode::ok;
    message.clear();
    parameter.clear();
  }
  void fault(ErrorCode code, std::string_view what, std::string_view at_fault) noexcept {
    error = code;
    set_message(message, what);
    set_text(parameter, at_fault);
  }
};

// Created on the caller's thread, then owned by the engine's. All memory for committing tokens is allocated
// at creation.
// Wide type: the state of a job, which every stage of a step reads and writes.
struct JobRecord {
  JobRecord(JobRequest job_request, SamplerState sampler_state, TextOutput text_output)
      : request(std::move(job_request)),
        sampler(std::move(sampler_state)),
        text(std::move(text_output)),
        lane(this) {}

  JobId id;
  JobRequest request;  // without its prompts, which were moved to the lanes, and without its queue
  std::shared_ptr<JobChannel> channel;
  SamplerState sampler;
  TextOutput text;
  JobOutput output;
  Pool pool;                              // of an embedding job
  std::unique_ptr<TokenMatcher> matcher;  // of a constrained job

  Lane lane;                  // sequence that generates the output
  std::optional<Lane> guide;  // negative prompt with the same new tokens, for guidance
  int32_t max_tokens = 0;     // limit for lane: prompt and new tokens
  std::vector<TokenId> stop_tokens;
  Exclusions exclusions;         // tokens excluded by banned strings
  TokenIds first_banned_tokens;  // not sampled as the first new token

  // Scheduling. Deadlines are points in time; max(): none.
  TimePoint submitted;
  TimePoint queue_deadline = TimePoint::max();
  TimePoint first_token_deadline = TimePoint::max();
  TimePoint total_deadline = TimePoint::max();
  int32_t name_space = -1;     // index in Namespaces
  int32_t metrics_index = -1;  // index in MetricsStore
  int32_t admitted_priority = 0;
  int32_t overtaken = 0;
  WaitReason wait_reason;  // copy of the reason in the channel
  bool paused = false;
  bool suspect = false;
  bool prefix_looked_up = false;  // stored prefix pages were already looked up

  // Progress.
  std::optional<TimePoint> started;
  std::optional<TimePoint> first_token;
  TimePoint last_token;
  std::optional<TimePoint> paused_since;  // since the job was paused or its reader became too slow
  bool announced = false;                 // EventKind::started was sent
  bool ended = false;                     // its terminal event is sent by the next sweep
  JobResult result;
  JobStep step;
  JobDrafts drafts;

  template <typename Act>
  void for_each_lane(Act act) {
    act(lane);
    if (guide) act(*guide);
  }
  template <typename Act>
  void for_each_lane(Act act) const {
    act(lane);
    if (guide) act(*guide);
  }
  int32_t num_lanes() const { return guide ? 2 : 1; }
  // Appends candidate tokens (drafts) for the next step to verify. The caller stays within max_tokens.
  void propose(gsl::span<const TokenId> candidates) {
    for_each_lane([&](Lane& of) {
      of.tokens.insert(of.tokens.end(), candidates.begin(), candidates.end());
      of.num_candidates += static_cast<int32_t>(candidates.size());
    });
  }
  void drop_candidates() noexcept {
    for_each_lane([](Lane& of) {
      of.tokens.resize(of.tokens.size() - static_cast<size_t>(std::exchange(of.num_candidates, 0)));
    });
  }

  int32_t num_tokens() const { return static_cast<int32_t>(lane.known().size()); }
  int32_t num_new_tokens() const { return num_tokens() - lane.num_prompt_tokens; }
  // Includes the tokens sampled by the running step.
  int32_t num_drawn_tokens() const { return num_new_tokens() + static_cast<int32_t>(step.drawn.size()); }
  // Returns how many draft tokens of the running step, from the first on, are among the sampled tokens.
  int32_t num_accepted_drafts() const {
    const gsl::span<const TokenId> drafts_of_step = lane.drafts();
    size_t accepted = 0;
    while (accepted < std::min(drafts_of_step.size(), step.drawn.size()) &&
           drafts_of_step[accepted] == step.drawn[accepted].token)
      ++accepted;
    return static_cast<int32_t>(accepted);
  }
  bool holds_pages() const { return lane.sequence.has_value(); }
  bool wants_log_probs() const { return request.want_log_probs || request.num_top_log_probs > 0; }
  // True if the job is neither paused nor held back by a slow reader.
  bool runnable() const { return !paused && !channel->stream->is_throttled(); }
  // Returns the earliest deadline that can still be missed.
  TimePoint deadline() const {
    TimePoint earliest = total_deadline;
    if (!first_token) earliest = std::min(earliest, first_token_deadline);
    if (!started) earliest = std::min(earliest, queue_deadline);
    return earliest;
  }
};

}  // namespace quire
