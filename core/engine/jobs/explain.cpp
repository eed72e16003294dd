#include "core/engine/jobs/explain.h"

#include <fmt/core.h>

#include "core/base/deadline.h"
#include "core/base/error.h"

namespace quire {

namespace {

std::string next_release(const WaitReason& reason) {
  if (reason.next_release.value == 0) return {};
  return fmt::format(", the next release is job {}", reason.next_release.value);
}

std::string describe(const WaitReason& reason) {
  switch (reason.cause) {
    case WaitCause::pages:
      return fmt::format("needs {} pages, {} free{}", reason.needed_pages, reason.available_pages,
                         next_release(reason));
    case WaitCause::slots:
      return fmt::format("all {} batch slots are in use{}", reason.running_jobs, next_release(reason));
    case WaitCause::quota_jobs:
      return fmt::format("its namespace is at its limit of {} running jobs", reason.running_jobs);
    case WaitCause::quota_pages:
      return fmt::format("needs {} pages, {} left in the quota of its namespace", reason.needed_pages,
                         reason.available_pages);
    case WaitCause::shared_prefix:
      return "waits for the start of its prompt, which another job is computing";
    case WaitCause::model:
      return "waits for the weights of its model, which are being loaded";
    case WaitCause::turn:
    case WaitCause::none:
      break;
  }
  return "waits for its turn";
}

std::string explain_wait(const JobView& job) {
  if (job.wait.in_front.value == 0) return "queued: " + describe(job.wait);
  return fmt::format("queued after job {}: {}", job.wait.in_front.value, describe(job.wait_in_front));
}

double tokens_per_second(const JobResult& result) {
  const double seconds = in_seconds(result.time_generating);
  return seconds > 0.0 && result.new_tokens > 1 ? (result.new_tokens - 1) / seconds : 0.0;
}

// Describes the time that a running or finished job has taken so far.
std::string times(const JobResult& result) {
  std::string line = fmt::format("queued {:.3f} s, prompt {:.3f} s for {} tokens, {} of them cached",
                                 in_seconds(result.time_queued), in_seconds(result.time_prefill),
                                 result.prompt_tokens, result.cached_tokens);
  if (result.new_tokens > 0) {
    line += fmt::format(", {} new in {:.3f} s, {:.1f} a second", result.new_tokens,
                        in_seconds(result.time_generating), tokens_per_second(result));
  }
  if (result.preemptions > 0) line += fmt::format(", preempted {} times", result.preemptions);
  if (result.time_paused > Duration{0}) {
    line += fmt::format(", paused for {:.3f} s", in_seconds(result.time_paused));
  }
  return line;
}

std::string explain_running(const JobView& job, std::string_view doing) {
  return fmt::format("{} in steps of {} jobs; {}", doing, job.batch_jobs, times(job.result));
}

// Describes the draft tokens of a generating job, or why it has none.
std::string drafts(const JobView& job) {
  switch (job.drafts) {
    case DraftReason::drafting:
      return fmt::format("; {} of {} draft tokens accepted", job.result.accepted_draft_tokens,
                         job.result.draft_tokens);
    case DraftReason::off_in_engine:
      return "; no drafts: the cache has no drafter";
    case DraftReason::off_in_request:
      return "; no drafts: max_drafts of the request is 0";
    case DraftReason::no_match:
      return "; no drafts: the drafter has no proposal";
    case DraftReason::costs_more:
      return "; no drafts: at the recent acceptance they cost more time than they save";
    case DraftReason::prompts:
      return "; no drafts: prompts of other jobs are being computed";
    case DraftReason::no_room:
      return "; no drafts: no room in the step or before the end of the job";
    case DraftReason::behind:
      return "; no drafts: the draft network has not read the text of the job yet";
    case DraftReason::not_generating:
      break;
  }
  return {};
}

std::string_view reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::unfinished:
      return "unfinished";
    case FinishReason::stop_token:
      return "a stop token";
    case FinishReason::stop_string:
      return "a stop string";
    case FinishReason::max_new_tokens:
      return "max_new_tokens";
    case FinishReason::max_seq_len:
      return "max_seq_len";
    case FinishReason::completed:
      return "completion";
    case FinishReason::cancelled:
      return "cancellation";
    case FinishReason::failed:
      return "failure";
    case FinishReason::loop:
      return "a repetition loop";
  }
  return "unknown";
}

std::string explain_end(const JobResult& result) {
  std::string line = fmt::format("finished by {}: {}", reason_name(result.reason), times(result));
  if (result.reason == FinishReason::failed) {
    line += fmt::format("; {}: {}", error_code_name(result.error), result.message);
  }
  return line;
}

}  // namespace

std::string explain(const JobView& job) {
  switch (job.state) {
    case JobState::queued:
      return job.result.preemptions > 0 ? fmt::format("{}; {}", explain_wait(job), times(job.result))
                                        : explain_wait(job);
    case JobState::prefill:
      return explain_running(job, fmt::format("computing token {} of its prompt", job.computed_tokens));
    case JobState::generating:
      return explain_running(job, "generating") + drafts(job);
    case JobState::paused:
      return fmt::format("{}{}; {}", job.reader_behind ? "paused until its events are read" : "paused",
                         job.was_preempted ? ", preempted" : "", times(job.result));
    case JobState::finished:
      return explain_end(job.result);
  }
  return {};
}

}  // namespace quire
