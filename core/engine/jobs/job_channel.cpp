#include "core/engine/jobs/job_channel.h"

#include <algorithm>
#include <utility>

#include "core/base/message_text.h"

namespace quire {

namespace {

// Shared by all engines, so that a queue with events of several can distinguish their jobs.
constinit std::atomic<uint64_t> last_job_id{0};

std::shared_ptr<EventStream> make_stream(EventStreamOptions options, JobId job) {
  options.job = job;
  return std::make_shared<EventStream>(std::move(options));
}

}  // namespace

JobChannel::JobChannel(JobKind job_kind, JobMark job_mark, std::string job_name_space,
                       const EventStreamOptions& options)
    : id{++last_job_id},
      kind(job_kind),
      mark(job_mark),
      name_space(std::move(job_name_space)),
      stream(make_stream(options, id)) {}

void JobChannel::label(EventKind event_kind, Event& event) const {
  event.kind = event_kind;
  event.job = id;
  event.index = mark.index;
  event.tag = mark.tag;
}

Event JobChannel::make_event(EventKind event_kind) const {
  Event event;
  label(event_kind, event);
  return event;
}

bool JobChannel::finish(JobResult&& result, EventBatch* batch) noexcept {
  if (over_.exchange(true)) return false;
  Event terminal = make_event(result.reason == FinishReason::failed ? EventKind::error : EventKind::finished);
  terminal.reason = result.reason;
  terminal.error = result.error;
  set_message(terminal.message, result.message);
  terminal.parameter = share_text(result.parameter);
  terminal.stop_token = result.stop_token;
  set_text(terminal.stop_string, result.stop_string);
  terminal.usage = result;
  {
    const MutexLock lock(mutex_);
    result_ = std::move(result);
  }
  state = JobState::finished;
  stream->finish(std::move(terminal), batch);
  return true;
}

void JobChannel::set_wait_reason(const WaitReason& reason) noexcept {
  const MutexLock lock(mutex_);
  wait_reason_ = reason;
}

void JobChannel::set_output(JobOutput&& output) noexcept {
  const MutexLock lock(mutex_);
  output_ = std::move(output);
}

JobResult JobChannel::result() const {
  {
    const MutexLock lock(mutex_);
    if (result_.has_value()) return *result_;
  }
  return result_so_far();
}

JobResult JobChannel::result_so_far() const noexcept {
  JobResult result;
  result.prompt_tokens = progress.prompt_tokens;
  result.cached_tokens = progress.cached_tokens;
  result.new_tokens = progress.new_tokens;
  result.draft_tokens = progress.drafts.tokens;
  result.accepted_draft_tokens = progress.drafts.accepted;
  std::copy(progress.drafts.accepted_by_position.begin(), progress.drafts.accepted_by_position.end(),
            result.accepted_by_position.begin());
  result.preemptions = progress.preemptions;
  const TimePoint submitted = progress.submitted;
  const TimePoint started = progress.started;
  const TimePoint first_token = progress.first_token;
  if (submitted == TimePoint::max()) return result;
  const TimePoint now = std::max(submitted, stream->options().clock->now());
  result.time_queued = std::min(now, started) - submitted;
  if (started < now) result.time_prefill = std::min(now, first_token) - started;
  if (first_token < now) result.time_generating = now - first_token;
  return result;
}

WaitReason JobChannel::wait_reason() const {
  const MutexLock lock(mutex_);
  return wait_reason_;
}

}  // namespace quire
