// The only door into the engine's thread.
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

// Something for the engine to do between two steps. Exactly one of the two is called.
class EngineTask {
 public:
  virtual ~EngineTask() = default;
  virtual void run(LiveJobs& jobs) = 0;
  virtual void refuse(ErrorCode code, std::string_view message, std::string_view parameter) noexcept = 0;
};

struct Inbox {
  std::vector<std::unique_ptr<JobRecord>> jobs;
  std::vector<std::unique_ptr<EngineTask>> tasks;
  bool cancels = false;  // some job wants to be cancelled
};

// Any thread may call anything. Its lock is taken by itself.
class JobQueue {
 public:
  JobQueue(const EngineOptions& options, std::shared_ptr<EngineSignal> signal);

  const std::shared_ptr<EngineSignal>& signal() const { return signal_; }

  // Throws closed, capacity or quota, or the engine's own error; the job is not known then.
  void push(std::unique_ptr<JobRecord> job);
  // All or none.
  void push(std::vector<std::unique_ptr<JobRecord>> jobs);
  void post(std::unique_ptr<EngineTask> task);
  // Counts a fork in, whose record the engine makes; throws like push. Its task is to be posted next, or
  // leave is to be called.
  void enter(const std::shared_ptr<JobChannel>& channel);
  void leave(const JobChannel& channel) noexcept;
  void request_cancel() noexcept;

  // Everything that came since the last call; the vectors of `inbox` are empty and their memory is kept.
  void take(Inbox& inbox);
  // A job left the queue for the first time, or ended there.
  void left_queue(const std::string& name_space) noexcept;
  void forget(JobId job) noexcept;

  // Everything that comes later fails with this; what is in the inbox is refused. The first call counts.
  void shut(ErrorCode code, std::string_view message) noexcept;
  bool shut() const;
  ErrorCode shut_code() const;
  std::string shut_message() const noexcept;
  // Ends every job that is known, from whatever thread; for an engine that does not answer any more.
  void end_all_jobs(ErrorCode code, std::string_view message) noexcept;

  // The channel of a job that is not over; null where there is none.
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
  // Smoothed, between two jobs that left the queue; -1 before there were two.
  int64_t leave_interval_ns_ QUIRE_GUARDED_BY(mutex_) = -1;
  TimePoint last_left_ QUIRE_GUARDED_BY(mutex_) = TimePoint::min();
  ErrorCode shut_code_ QUIRE_GUARDED_BY(mutex_) = ErrorCode::ok;
  std::string shut_message_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
