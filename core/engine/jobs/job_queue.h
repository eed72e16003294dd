// Queue of an engine: submissions, tasks and cancellations from other threads, with admission control.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/engine_signal.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/engine/jobs/job_record.h"
#include "core/engine/jobs/namespace_quotas.h"
#include "core/engine/settings/engine_options.h"

namespace quire {

class LiveJobs;

// Work for the engine between two steps. The engine calls exactly one of the two functions.
class EngineTask {
 public:
  virtual ~EngineTask() = default;
  virtual void run(LiveJobs& jobs) = 0;
  virtual void refuse(ErrorCode code, std::string_view message, std::string_view parameter) noexcept = 0;
};

struct QueuedWork {
  std::vector<std::unique_ptr<JobRecord>> jobs;
  std::vector<std::unique_ptr<EngineTask>> tasks;
  bool cancels = false;  // at least one job was cancelled
};

// Thread-safe. No other lock is held or taken together with its lock.
class JobQueue {
 public:
  JobQueue(const EngineOptions& options, std::shared_ptr<EngineSignal> signal);

  const std::shared_ptr<EngineSignal>& signal() const { return signal_; }

  // Queues a job. Throws closed, capacity or quota, or the engine's own error; then the job is not
  // registered.
  void push(std::unique_ptr<JobRecord> job);
  // Queues all jobs or none.
  void push(std::vector<std::unique_ptr<JobRecord>> jobs);
  void post(std::unique_ptr<EngineTask> task);
  // Registers a fork, whose record the engine creates later. Throws like push. The caller must then post the
  // fork's task or call leave.
  void enter(const std::shared_ptr<JobChannel>& channel);
  void leave(const JobChannel& channel) noexcept;
  void request_cancel() noexcept;

  // Takes everything since the last call. The vectors of `inbox` must be empty; their capacity is reused.
  void take(QueuedWork& queued_work);
  // Called when a job leaves the queue for the first time, or ends in it.
  void left_queue(const std::string& name_space) noexcept;
  void forget(JobId job) noexcept;

  // Rejects all later submissions with this error, and refuses the posted tasks. Only the first call's error
  // counts.
  void shut(ErrorCode code, std::string_view message) noexcept;
  bool shut() const;
  ErrorCode shut_code() const;
  std::string shut_message() const noexcept;
  // Ends all registered jobs from any thread, for an engine that no longer responds.
  void end_all_jobs(ErrorCode code, std::string_view message) noexcept;

  // Returns the channel of a job that has not finished, or null.
  std::shared_ptr<JobChannel> find_live(JobId job) const;
  int32_t num_queued() const;
  size_t num_live() const;

 private:
  void check_open() const QUIRE_REQUIRES(mutex_);
  void check_room(const std::string& name_space, size_t num_jobs) const QUIRE_REQUIRES(mutex_);
  void note_leave() noexcept QUIRE_REQUIRES(mutex_);

  const EngineOptions options_;
  const std::shared_ptr<NamespaceQuotas> quotas_;
  const std::shared_ptr<EngineSignal> signal_;
  std::atomic<bool> cancels_{false};

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<JobRecord>> jobs_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<EngineTask>> tasks_ QUIRE_GUARDED_BY(mutex_);
  std::unordered_map<JobId, std::shared_ptr<JobChannel>> live_ QUIRE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, int32_t> queued_by_name_space_ QUIRE_GUARDED_BY(mutex_);
  int32_t num_queued_ QUIRE_GUARDED_BY(mutex_) = 0;
  // Smoothed time between two jobs that left the queue; -1 until two have left.
  int64_t leave_interval_ns_ QUIRE_GUARDED_BY(mutex_) = -1;
  TimePoint last_left_ QUIRE_GUARDED_BY(mutex_) = TimePoint::min();
  ErrorCode shut_code_ QUIRE_GUARDED_BY(mutex_) = ErrorCode::ok;
  std::string shut_message_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
