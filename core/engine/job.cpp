#include "core/engine/job.h"

#include <utility>

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/engine/cache.h"
#include "core/engine/deadline.h"
#include "core/engine/engine_core.h"
#include "core/engine/event_queue.h"
#include "core/engine/job_channel.h"

namespace quire {

Job::Job(std::shared_ptr<Cache> cache, std::shared_ptr<JobChannel> channel)
    : cache_(std::move(cache)), channel_(std::move(channel)) {}

Job::~Job() {
  channel_->stream->abandon();
  cancel();
}

JobId Job::id() const {
  return channel_->id;
}

uint64_t Job::tag() const {
  return channel_->tag;
}

std::optional<Event> Job::poll(Duration timeout) {
  return channel_->stream->poll(timeout);
}

bool Job::drained() const {
  return channel_->stream->drained();
}

bool Job::wait(Duration timeout) const {
  return channel_->stream->wait_finished(timeout);
}

void Job::cancel() noexcept {
  if (channel_->over() || channel_->cancel_requested.exchange(true)) return;
  cache_->core().queue().request_cancel();
}

// A job that is over by the time the engine looks is left as it is, and so is a closed cache's.
template <typename Change>
void Job::change(Change change) {
  if (channel_->over()) return;
  cache_->core().post([id = channel_->id, change](StepLoop& loop) {
    if (JobRecord* job = loop.find(id)) change(loop, *job);
  });
}

void Job::pause() {
  change([](StepLoop&, JobRecord& job) {
    job.paused = true;
    job.channel->state = JobState::paused;
  });
}

void Job::resume() {
  change([](StepLoop&, JobRecord& job) {
    job.paused = false;
    job.channel->state = !job.sequence     ? JobState::queued
                         : job.first_token ? JobState::generating
                                           : JobState::prefill;
  });
}

void Job::set_priority(int32_t priority) {
  if (priority < -1000 || priority > 1000) {
    throw Error(ErrorCode::invalid_argument, "priority is {}, must be -1000 to 1000", priority);
  }
  change([priority](StepLoop&, JobRecord& job) {
    job.request.priority = priority;
    job.admitted_priority = priority;
  });
}

void Job::rewind(int32_t num_new_tokens) {
  if (num_new_tokens < 0) throw Error(ErrorCode::invalid_argument, "num_new_tokens is {}", num_new_tokens);
  change([num_new_tokens](StepLoop& loop, JobRecord& job) { loop.rewind(job, num_new_tokens); });
}

std::shared_ptr<Job> Job::fork(const ForkOptions& options) {
  if (channel_->kind != JobKind::generate) {
    throw Error(ErrorCode::invalid_argument, "job {} generates nothing that a fork could go on from",
                id().value);
  }
  if (options.max_new_tokens < 0) {
    throw Error(ErrorCode::invalid_argument, "max_new_tokens of the fork is {}", options.max_new_tokens);
  }
  EngineCore& core = cache_->core();
  EventStreamOptions stream = channel_->stream->options();
  stream.queue = options.queue;
  auto channel = std::make_shared<JobChannel>(core.queue().next_id(), channel_->kind, options.tag,
                                              channel_->name_space, stream);
  auto child = std::make_shared<Job>(cache_, channel);
  core.queue().enter(channel);
  try {
    core.post_fork(channel_->id, channel, options);
  } catch (...) {
    core.queue().leave(*channel);
    throw;
  }
  return child;
}

JobState Job::state() const {
  return channel_->state;
}

JobResult Job::result() const {
  return channel_->result();
}

namespace {

std::string explain_wait(const WaitReason& reason) {
  switch (reason.cause) {
    case WaitCause::pages:
      return fmt::format(
          "queued: needs {} pages, {} available; the next release is expected from job {} of {}",
          reason.needed_pages, reason.available_pages, reason.next_release.value, reason.running_jobs);
    case WaitCause::slots:
      return fmt::format("queued: all {} places are taken; the next release is expected from job {}",
                         reason.running_jobs, reason.next_release.value);
    default:
      return "queued: waits for its turn";
  }
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
  }
  return "unknown";
}

std::string explain_end(const JobResult& result) {
  std::string line = fmt::format(
      "finished by {}: {} prompt tokens ({} cached), {} new; queued {:.3f} s, prefill {:.3f} s, generating "
      "{:.3f} s, "
      "preempted {} times",
      reason_name(result.reason), result.prompt_tokens, result.cached_tokens, result.new_tokens,
      in_seconds(result.time_queued), in_seconds(result.time_prefill), in_seconds(result.time_generating),
      result.preemptions);
  if (result.reason == FinishReason::failed) {
    line += fmt::format("; {}: {}", error_code_name(result.error), result.message);
  }
  return line;
}

}  // namespace

std::string Job::explain() const {
  switch (channel_->state.load()) {
    case JobState::queued:
      return explain_wait(channel_->wait_reason());
    case JobState::prefill:
      return fmt::format("computing its prompt: {} tokens so far", channel_->computed_tokens.load());
    case JobState::generating:
      return fmt::format("generating: {} new tokens so far", channel_->new_tokens.load());
    case JobState::paused:
      return fmt::format("paused with {} new tokens", channel_->new_tokens.load());
    case JobState::finished:
      return explain_end(channel_->result());
  }
  return {};
}

std::vector<float> Job::scores() const {
  return channel_->output().scores;
}

std::vector<float> Job::raw_logits() const {
  return channel_->output().raw_logits;
}

std::vector<float> Job::embedding() const {
  return channel_->output().embedding;
}

}  // namespace quire
