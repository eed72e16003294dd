#include "core/engine/jobs/job_channel.h"

#include <algorithm>
#include <utility>

namespace quire {

JobChannel::JobChannel(JobId job, JobKind job_kind, uint64_t job_tag, std::string job_name_space,
                       const EventStreamOptions& options)
    : id(job),
      kind(job_kind),
      tag(job_tag),
      name_space(std::move(job_name_space)),
      stream(std::make_shared<EventStream>(options)) {}

bool JobChannel::finish(JobResult&& result) noexcept {
  if (over_.exchange(true)) return false;
  Event terminal;
  terminal.kind = result.reason == FinishReason::failed ? EventKind::error : EventKind::finished;
  terminal.job = id;
  terminal.tag = tag;
  terminal.reason = result.reason;
  terminal.error = result.error;
  set_message(terminal.message, result.message);
  {
    const MutexLock lock(mutex_);
    result_ = std::move(result);
  }
  state = JobState::finished;
  stream->finish(std::move(terminal));
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

JobResult JobChannel::result_so_far() const {
  JobResult result;
  result.prompt_tokens = progress.prompt_tokens;
  result.cached_tokens = progress.cached_tokens;
  result.new_tokens = progress.new_tokens;
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

JobOutput JobChannel::output() const {
  const MutexLock lock(mutex_);
  return output_;
}

}  // namespace quire
