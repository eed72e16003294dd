// The jobs that the engine has taken from its queue: how they come, are changed from outside, and go.
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

// What jobs live on; outlives them.
struct EngineContext {
  const Runtime& runtime;
  const EngineOptions& options;
  ExecutorLimits executor;
  PolicyLimits policy;
  int32_t num_tokens = 0;  // of the vocabulary
  JobQueue& queue;
  EnginePages& pages;
};

// Owns all jobs that live. One thread at a time.
class LiveJobs {
 public:
  using Jobs = std::vector<std::unique_ptr<JobRecord>>;

  explicit LiveJobs(const EngineContext& context);
  ~LiveJobs();

  // Takes over what came through the door. Never throws for what one job or one task did.
  void take_in(Inbox& inbox);
  // Before a step: ends the jobs that missed a deadline, and the pins that expire.
  void look_at_clock() noexcept;
  // After a step: jobs that have ended are announced and forgotten, and figures are published.
  void sweep() noexcept;
  void end_all(ErrorCode code, std::string_view message) noexcept;
  // When somebody has to look again without being told; max() where never.
  TimePoint next_event() const;

  const EngineContext& context() const { return context_; }
  const Jobs& running() const { return running_; }
  const Jobs& waiting() const { return waiting_; }
  bool empty() const { return running_.empty() && waiting_.empty(); }
  JobRecord* find(JobId id);
  TimePoint now() const { return now_; }  // of the last look at the clock
  Namespaces& name_spaces() { return namespaces_; }
  void take_new_quotas() {
    namespaces_.take_new_quotas();
    note_change();
  }
  EventBatch& pending_wakeups() { return pending_wakeups_; }
  MetricsStore& metrics_store() { return metrics_store_; }
  const MetricsStore& metrics_store() const { return metrics_store_; }
  // Counts up with all that could let a waiting job begin: an end, a new job, a task.
  uint64_t num_changes() const { return num_changes_; }
  void note_change() noexcept { ++num_changes_; }

  // Before a plan: what the prompts that may begin find outside of the cache comes back to it.
  void bring_prefixes_back();
  // At the end of the cache: what later ones may use is filed, for so long at most.
  void file_prefixes(Duration longest) noexcept;

  // Of a plan.
  void preempt(JobRecord& job);
  // Gives it a sequence. It stays where it is until move_admitted: grants name jobs by place.
  void admit(JobRecord& job, int32_t priority);
  void move_admitted() noexcept;
  // Pins give way to a job that could never run beside them. False where there are none.
  bool drop_oldest_pin() noexcept;

  void end(JobRecord& job, FinishReason reason, ErrorCode code, std::string_view message,
           std::string_view parameter = {}) noexcept;
  void fail(JobRecord& job, ErrorCode code, std::string_view message,
            std::string_view parameter = {}) noexcept {
    end(job, FinishReason::failed, code, message, parameter);
  }
  // All that live; the cache goes on.
  void fail_all(ErrorCode code, std::string_view message) noexcept;
  void measure_reuse(const JobRecord& job) noexcept;
  // The weights are not there: whoever asks a job why it waits learns it.
  void wait_for_model() noexcept;

  // The newest tokens were never drawn, and the first of them is not drawn there again: a banned text began
  // with it.
  void retract_banned(JobRecord& job, int32_t num_tokens);

  // For tasks, between two steps.
  void rewind(JobRecord& job, int32_t num_new_tokens);
  void fork(const JobRecord& parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options,
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
  EventBatch pending_wakeups_;  // streams that got events since their queues were told
  bool prefixes_filed_ = false;
  bool any_ended_ = false;  // some record waits for the sweep
  uint64_t num_changes_ = 0;
  TimePoint now_;
  TimePoint next_deadline_ = TimePoint::max();
};

// Times in which a running job takes no part in steps.
void note_rest(JobRecord& job, bool rests, TimePoint now) noexcept;

}  // namespace quire
