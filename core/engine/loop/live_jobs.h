// Live jobs of an engine: accepting them from the queue, changing them, and ending them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/jobs/job_queue.h"
#include "core/engine/jobs/job_record.h"
#include "core/engine/jobs/namespaces.h"
#include "core/engine/jobs/request_check.h"
#include "core/engine/loop/engine_pages.h"
#include "core/engine/loop/pins.h"
#include "core/engine/metrics/metrics_store.h"
#include "core/engine/scheduler/scheduler_policy.h"
#include "core/engine/settings/engine_options.h"
#include "core/engine/settings/job_state.h"
#include "core/engine/settings/pin_id.h"

namespace quire {

// Objects and settings that LiveJobs works with; they outlive it.
struct EngineContext {
  const Runtime& runtime;
  const EngineOptions& options;
  ExecutorLimits executor;
  PolicyLimits policy;
  int32_t num_tokens = 0;  // size of the vocabulary
  JobQueue& queue;
  EnginePages& pages;
};

// Owns all live jobs. Not thread-safe.
class LiveJobs {
 public:
  using Jobs = std::vector<std::unique_ptr<JobRecord>>;

  explicit LiveJobs(const EngineContext& context);
  ~LiveJobs();

  // Takes over new jobs and tasks from the queue. Errors of single jobs or tasks do not throw.
  void take_in(QueuedWork& queued_work);
  // Reads the clock, and ends jobs that missed a deadline and pins that expired. Called before a step.
  void read_clock() noexcept;
  // Announces and removes jobs that have ended, and publishes statistics. Called after a step.
  void sweep() noexcept;
  void end_all(ErrorCode code, std::string_view message) noexcept;
  // Returns when the next deadline or pin expires; max(): never.
  TimePoint next_event() const;

  const EngineContext& context() const { return context_; }
  const Jobs& running() const { return running_; }
  const Jobs& waiting() const { return waiting_; }
  bool empty() const { return running_.empty() && waiting_.empty(); }
  JobRecord* find(JobId id);
  TimePoint now() const { return now_; }  // when the clock was last read
  Namespaces& name_spaces() { return namespaces_; }
  void take_new_quotas() {
    namespaces_.take_new_quotas();
    note_change();
  }
  EventBatch& pending_wakeups() { return pending_wakeups_; }
  MetricsStore& metrics_store() { return metrics_store_; }
  const MetricsStore& metrics_store() const { return metrics_store_; }
  // Returns the number of events that may have let a waiting job start: an ended job, a new job, a task.
  uint64_t num_changes() const { return num_changes_; }
  void note_change() noexcept { ++num_changes_; }

  // Restores evicted prefix pages of the jobs that may start next. Called before planning.
  void reload_prefixes();
  // Writes prefix pages to files for later engines, for at most `longest`. Called at close.
  void write_prefix_files(Duration longest) noexcept;

  // Frees the pages of a running job and puts it back into the queue. Carries out a decision of a plan, like
  // the next two.
  void preempt(JobRecord& job);
  // Creates the job's sequences. The job stays in waiting() until move_admitted, because grants refer to jobs
  // by index.
  void admit(JobRecord& job, int32_t priority);
  void move_admitted() noexcept;
  // Removes the oldest pin, for a job that otherwise could never run. Returns false if there are no pins.
  bool drop_oldest_pin() noexcept;

  void end(JobRecord& job, FinishReason reason, ErrorCode code, std::string_view message,
           std::string_view parameter = {}) noexcept;
  void fail(JobRecord& job, ErrorCode code, std::string_view message,
            std::string_view parameter = {}) noexcept {
    end(job, FinishReason::failed, code, message, parameter);
  }
  // Fails all live jobs; the engine continues.
  void fail_all(ErrorCode code, std::string_view message) noexcept;
  void measure_reuse(const JobRecord& job) noexcept;
  // Sets the wait reason of all waiting jobs to the missing weights.
  void wait_for_model() noexcept;

  // Removes the newest tokens, and excludes the first of them from being sampled there again: a banned text
  // began with it.
  void retract_banned(JobRecord& job, int32_t num_tokens);

  // Allocates pages of a running lane up to a length, for a draft network. Returns false if the quota of its
  // namespace or the next step of other jobs may need them.
  bool extend_pages(const Lane& lane, int32_t num_tokens);

  // Called by tasks, between two steps.
  void rewind(JobRecord& job, int32_t num_new_tokens);
  void fork(JobRecord& parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options,
            int32_t max_seq_len);
  PinId pin(const TokenIds& prompt, const std::string& name_space, Duration time_to_live);
  void unpin(PinId pin) noexcept;
  int32_t query_prefix(const TokenIds& prompt, const std::string& name_space) const;
  void follow_pages(const PageFollowing& following);

 private:
  void fail_each(ErrorCode code, std::string_view message) noexcept;
  void accept(std::unique_ptr<JobRecord> job) noexcept;
  void end_cancelled() noexcept;
  void end_late() noexcept;
  void announce_end(JobRecord& job) noexcept;
  void publish_stats() noexcept;
  void begin(JobRecord& job) noexcept;
  int32_t num_pages(const JobRecord& job) const;
  int32_t pages_of(int32_t name_space) const;
  int32_t num_running_lanes() const;
  bool has_place_for_fork(const JobRecord& parent);
  void close_lanes(JobRecord& job) noexcept;
  void drop_pages(JobRecord& job) noexcept;
  void drop_tokens(JobRecord& job, int32_t num_new_tokens);
  KvCache& kv() const { return context_.pages.kv(); }

  const EngineContext context_;
  Namespaces namespaces_;
  MetricsStore metrics_store_;
  Pins pins_;
  Jobs running_;
  Jobs waiting_;
  std::vector<JobRecord*> admitted_;
  EventBatch pending_wakeups_;  // streams with new events whose queues were not notified yet
  struct Sweeps {
    bool any_ended = false;  // a job waits for the next sweep
    bool prefixes_filed = false;
  };
  Sweeps sweeps_;
  uint64_t num_changes_ = 0;
  TimePoint now_;
  TimePoint next_deadline_ = TimePoint::max();
};

// Counts the time in which a running job takes part in no step.
void track_pauses(JobRecord& job, bool rests, TimePoint now) noexcept;

}  // namespace quire
