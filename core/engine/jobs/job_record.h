// The engine's end of one job.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/engine/events/text_output.h"
#include "core/engine/jobs/job_channel.h"
#include "core/engine/jobs/job_request.h"
#include "core/sampling/sampler.h"

namespace quire {

// What verify found out about a job in this step, to be applied once pages are committed.
struct JobStep {
  TokenIds new_tokens;
  FinishReason finish = FinishReason::unfinished;
  ErrorCode error = ErrorCode::ok;  // not ok: the job fails and nothing of the step stands
  std::string message;

  void fault(ErrorCode code, std::string_view what) noexcept {
    error = code;
    set_message(message, what);
  }
};

// Made on the caller's thread, then owned by the engine's. All memory that committing a token takes is there
// from the start.
struct JobRecord {
  JobRecord(JobRequest job_request, SamplerState sampler_state, TextOutput text_output)
      : request(std::move(job_request)), sampler(std::move(sampler_state)), text(std::move(text_output)) {}

  JobId id;
  JobRequest request;  // without its prompt, which moved to tokens, and its queue
  std::shared_ptr<JobChannel> channel;
  SamplerState sampler;
  TextOutput text;
  JobOutput output;
  std::vector<double> pooled;     // of an embedding job: the sum of the states so far
  int32_t num_pooled_tokens = 0;  // in it

  TokenIds tokens;  // prompt and generated
  int32_t num_prompt_tokens = 0;
  int32_t num_candidates = 0;  // drafts at the end of tokens, during a step
  int32_t max_tokens = 0;      // prompt and new ones
  std::vector<TokenId> stop_tokens;

  // Scheduling. Deadlines are points in time, max() where there is none.
  TimePoint submitted;
  TimePoint queue_deadline = TimePoint::max();
  TimePoint first_token_deadline = TimePoint::max();
  TimePoint total_deadline = TimePoint::max();
  int32_t name_space = -1;  // index in NameSpaces
  int32_t book_place = -1;  // in MetricsBook
  int32_t admitted_priority = 0;
  int32_t overtaken = 0;
  WaitReason wait_reason;  // as its channel has it
  bool paused = false;
  bool suspect = false;

  // Progress.
  std::optional<SequenceId> sequence;  // while it holds pages
  std::optional<TimePoint> started;
  std::optional<TimePoint> first_token;
  TimePoint last_token;
  std::optional<TimePoint> resting_since;  // while it is paused, or its reader is behind
  bool announced = false;                  // EventKind::started was sent
  bool ended = false;                      // its terminal event comes with the next sweep
  JobResult result;
  JobStep step;

  int32_t num_new_tokens() const {
    return static_cast<int32_t>(tokens.size()) - num_candidates - num_prompt_tokens;
  }
  // With those that the step in progress has drawn.
  int32_t num_drawn_tokens() const { return num_new_tokens() + static_cast<int32_t>(step.new_tokens.size()); }
  // Whether nothing that is known of the job lies behind the first num_tokens tokens.
  bool ends_at(int32_t num_tokens) const { return num_tokens == static_cast<int32_t>(tokens.size()); }
  bool wants_log_probs() const { return request.want_log_probs || request.num_top_log_probs > 0; }
  // Neither paused nor ahead of a reader that holds it back.
  bool runnable() const { return !paused && !channel->stream->holds_back(); }
  // The earliest deadline that can still be missed.
  TimePoint deadline() const {
    TimePoint earliest = total_deadline;
    if (!first_token) earliest = std::min(earliest, first_token_deadline);
    if (!started) earliest = std::min(earliest, queue_deadline);
    return earliest;
  }
};

}  // namespace quire
