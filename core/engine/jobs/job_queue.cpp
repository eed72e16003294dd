#include "core/engine/jobs/job_queue.h"

#include <algorithm>
#include <utility>

namespace quire {

JobQueue::JobQueue(const EngineOptions& options, std::shared_ptr<EngineSignal> signal)
    : options_(options),
      quotas_(options.quotas ? options.quotas : std::make_shared<NamespaceQuotas>(options)),
      signal_(std::move(signal)) {}

void JobQueue::check_open() const {
  if (shut_code_ != ErrorCode::ok) throw Error(shut_code_, shut_message_);
}

void JobQueue::check_room(const std::string& name_space, size_t num_jobs) const {
  const auto wanted = static_cast<int64_t>(num_jobs);
  if (num_queued_ + wanted > options_.max_queued_jobs) {
    throw Error(ErrorCode::capacity, "the queue is full: {} of {} jobs wait; submit again later", num_queued_,
                options_.max_queued_jobs)
        .retry_after(leave_interval_ns_);
  }
  const int32_t limit = quotas_->of(name_space).max_queued_jobs;
  const auto entry = queued_by_name_space_.find(name_space);
  const int32_t queued = entry == queued_by_name_space_.end() ? 0 : entry->second;
  if (limit > 0 && wanted > limit) {
    throw Error(ErrorCode::too_large, "num_jobs is {}; namespace \"{}\" may have at most {} waiting jobs",
                wanted, printable(name_space), limit)
        .at("namespace");
  }
  if (limit > 0 && queued + wanted > limit) {
    throw Error(ErrorCode::quota, "the queue of namespace \"{}\" is full: {} of {} jobs wait",
                printable(name_space), queued, limit);
  }
}

void JobQueue::push(std::unique_ptr<JobRecord> job) {
  std::vector<std::unique_ptr<JobRecord>> jobs;
  jobs.push_back(std::move(job));
  push(std::move(jobs));
}

// Everything that can fail comes first: reservations. The moves after them cannot.
void JobQueue::push(std::vector<std::unique_ptr<JobRecord>> jobs) {
  if (jobs.empty()) return;
  {
    const MutexLock lock(mutex_);
    const std::string& name_space = jobs.front()->request.name_space;
    check_open();
    check_room(name_space, jobs.size());
    jobs_.reserve(jobs_.size() + jobs.size());
    live_.reserve(live_.size() + jobs.size());
    decltype(live_) fresh;
    for (const auto& job : jobs) fresh.emplace(job->id, job->channel);
    queued_by_name_space_[name_space] += static_cast<int32_t>(jobs.size());
    live_.merge(fresh);
    num_queued_ += static_cast<int32_t>(jobs.size());
    for (auto& job : jobs) jobs_.push_back(std::move(job));
  }
  signal_->notify();
}

void JobQueue::enter(const std::shared_ptr<JobChannel>& channel) {
  const MutexLock lock(mutex_);
  check_open();
  check_room(channel->name_space, 1);
  live_.emplace(channel->id, channel);
  try {
    ++queued_by_name_space_[channel->name_space];
  } catch (...) {
    live_.erase(channel->id);
    throw;
  }
  ++num_queued_;
}

void JobQueue::leave(const JobChannel& channel) noexcept {
  left_queue(channel.name_space);
  forget(channel.id);
}

void JobQueue::post(std::unique_ptr<EngineTask> task) {
  {
    const MutexLock lock(mutex_);
    check_open();
    tasks_.push_back(std::move(task));
  }
  signal_->notify();
}

void JobQueue::request_cancel() noexcept {
  cancels_.store(true);
  signal_->notify();
}

void JobQueue::take(QueuedWork& queued_work) {
  queued_work.cancels = cancels_.exchange(false);
  const MutexLock lock(mutex_);
  queued_work.jobs.swap(jobs_);
  queued_work.tasks.swap(tasks_);
}

void JobQueue::left_queue(const std::string& name_space) noexcept {
  const MutexLock lock(mutex_);
  --num_queued_;
  note_leave();
  const auto entry = queued_by_name_space_.find(name_space);
  if (entry != queued_by_name_space_.end() && --entry->second == 0) queued_by_name_space_.erase(entry);
}

// Measures how fast jobs leave the queue. An interval counts as a minute at most, so that an idle time does
// not distort the average.
void JobQueue::note_leave() noexcept {
  constexpr int64_t kLongest = int64_t{60} * 1'000'000'000;
  const TimePoint now = steady_clock().now();
  if (last_left_ != TimePoint::min()) {
    const int64_t interval = std::min<int64_t>((now - last_left_).count(), kLongest);
    leave_interval_ns_ = leave_interval_ns_ < 0 ? interval : (3 * leave_interval_ns_ + interval) / 4;
  }
  last_left_ = now;
}

void JobQueue::forget(JobId job) noexcept {
  const MutexLock lock(mutex_);
  live_.erase(job);
}

void JobQueue::shut(ErrorCode code, std::string_view message) noexcept {
  std::vector<std::unique_ptr<EngineTask>> tasks;
  {
    const MutexLock lock(mutex_);
    if (shut_code_ == ErrorCode::ok) {
      shut_code_ = code;
      set_message(shut_message_, message);
    }
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task->refuse(code, message, {});
  signal_->notify();
}

bool JobQueue::shut() const {
  return shut_code() != ErrorCode::ok;
}

ErrorCode JobQueue::shut_code() const {
  const MutexLock lock(mutex_);
  return shut_code_;
}

std::string JobQueue::shut_message() const noexcept {
  std::string message;
  const MutexLock lock(mutex_);
  set_message(message, shut_message_);
  return message;
}

void JobQueue::end_all_jobs(ErrorCode code, std::string_view message) noexcept {
  // One job at a time: nothing has to be allocated, and no channel is used while the lock is held.
  for (;;) {
    std::shared_ptr<JobChannel> channel;
    {
      const MutexLock lock(mutex_);
      if (live_.empty()) return;
      channel = std::move(live_.begin()->second);
      live_.erase(live_.begin());
    }
    JobResult result = channel->result_so_far();
    result.reason = FinishReason::failed;
    result.error = code;
    set_message(result.message, message);
    channel->finish(std::move(result));
  }
}

std::shared_ptr<JobChannel> JobQueue::find_live(JobId job) const {
  const MutexLock lock(mutex_);
  const auto entry = live_.find(job);
  return entry == live_.end() ? nullptr : entry->second;
}

int32_t JobQueue::num_queued() const {
  const MutexLock lock(mutex_);
  return num_queued_;
}

size_t JobQueue::num_live() const {
  const MutexLock lock(mutex_);
  return live_.size();
}

}  // namespace quire
