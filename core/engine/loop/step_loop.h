// The step: plan, reserve, pack, forward, sample, verify, commit, emit.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/cache.h"
#include "core/engine/jobs/job_queue.h"
#include "core/engine/jobs/job_record.h"
#include "core/engine/jobs/name_spaces.h"
#include "core/engine/loop/fastest_steps.h"
#include "core/engine/loop/scheduler_policy.h"
#include "core/engine/metrics/metrics_book.h"
#include "core/kv/kv_cache.h"
#include "core/sampling/sampler.h"
#include "core/step/executor.h"

namespace quire {

enum class StepOutcome : int32_t { idle, advanced };

// Owns all jobs that were taken from the queue, and the pages. One thread at a time: the engine's own, or a
// test's.
class StepLoop {
 public:
  // `queue` outlives the loop.
  StepLoop(const Runtime& runtime, CacheParts parts, const CacheOptions& options, JobQueue& queue);
  ~StepLoop();

  // Takes over what came through the door. Never throws for what one job or one task did.
  void take_in(Inbox& inbox);
  // One step, or nothing where no job can run. Throws only where no job can go on: ErrorCode::device_lost, or
  // a defect of the engine itself. A fault of one job ends that job.
  StepOutcome run_once();
  // When an idle loop has to look again without being told; max() where never.
  TimePoint next_event() const;
  void end_all(ErrorCode code, std::string_view message) noexcept;

  // As of the last step; any thread.
  CacheStats stats() const { return book_.stats(); }
  CacheMetrics metrics() const { return book_.read(); }
  KvCache& kv() { return kv_; }
  const KvCache& kv() const { return kv_; }
  // As of the last step; any thread.
  FastestSteps fastest_steps() const;
  // When the step that is running now was started, in nanoseconds of the clock; 0 between steps. Any thread.
  int64_t step_started_ns() const { return step_started_ns_.load(std::memory_order_relaxed); }

  // For tasks, between two steps.
  JobRecord* find(JobId id);
  void rewind(JobRecord& job, int32_t num_new_tokens);
  void fork(const JobRecord& parent, std::shared_ptr<JobChannel> channel, const ForkOptions& options,
            int32_t max_seq_len);
  void take_new_quotas() {
    name_spaces_.take_new_quotas();
    queue_is_settled_ = false;
  }
  PinId pin(const TokenIds& prompt, const std::string& name_space, Duration time_to_live);
  void unpin(PinId pin) noexcept;
  int32_t query_prefix(const TokenIds& prompt, const std::string& name_space) const;

 private:
  using Jobs = std::vector<std::unique_ptr<JobRecord>>;
  struct Pin {
    PinId id;
    std::string name_space;
    int32_t book_place;
    std::vector<PageId> pages;
    TimePoint expires;
    int32_t num_own_pages = 0;  // those that no pin before it keeps
  };

  // Life of a job.
  void accept(std::unique_ptr<JobRecord> job) noexcept;
  void end_cancelled() noexcept;
  void end_late() noexcept;
  void expire_pins() noexcept;
  void end(JobRecord& job, FinishReason reason, ErrorCode code, std::string_view message) noexcept;
  void fail(JobRecord& job, ErrorCode code, std::string_view message) noexcept {
    end(job, FinishReason::failed, code, message);
  }
  void announce_end(JobRecord& job) noexcept;
  void sweep() noexcept;
  void publish_stats() noexcept;
  void begin(JobRecord& job) noexcept;
  bool has_place_for_fork(const JobRecord& parent);
  void drop_pages(JobRecord& job) noexcept;

  // Plan.
  bool plan();
  void plan_job(JobRecord& job, int32_t max_tokens, int32_t num_logit_rows);
  void view_jobs();
  RunningView view_running(const JobRecord& job) const;
  WaitingView view_waiting(const JobRecord& job) const;
  PageDemand demand_of_waiting(const JobRecord& job) const;
  void preempt(JobRecord& job);
  void carry_out(const PolicyOutput& output);
  static void note_rest(JobRecord& job, bool rests, TimePoint now) noexcept;
  void note_waits(const PolicyOutput& policy);
  JobId find_next_release() const;
  WaitReason reason_of(const BlockedJob& held, JobId next_release) const;
  void admit(JobRecord& job, const Grant& grant);
  void move_admitted();

  // Steps that are issued ahead.
  bool plan_following();
  void follow(const Reservation& reservation);
  bool all_take_part() const;
  bool goes_on(const JobRecord& job, const ReservedSequence& reserved) const;

  // The step itself.
  void step();
  void verify(const Reservation& reservation, const Logits& logits);
  void verify_job(JobRecord& job, const ReservedSequence& reserved, const Logits& logits, int32_t row,
                  AcceptedSequence& accepted);
  void verify_score(JobRecord& job, const ReservedSequence& reserved, const Logits& logits, int32_t row);
  void pool_states(JobRecord& job, const ReservedSequence& reserved, int32_t first_row);
  void add_states(JobRecord& job, int32_t first_row, int32_t num_rows);
  void verify_tokens(JobRecord& job, const ReservedSequence& reserved, const Logits& logits, int32_t row,
                     AcceptedSequence& accepted);
  void take_token(JobRecord& job, const SampledToken& sampled);
  void plan_draws(const Reservation& reservation);
  void plan_draw(const JobRecord& job, const ReservedSequence& reserved, int32_t row);
  static SampleRequest draw_request(const JobRecord& job, int32_t num_pending = 0);
  SampledToken sample(const JobRecord& job, const Logits& logits, int32_t row);
  bool is_finite(const Logits& logits, int32_t row) const;
  gsl::span<const float> token_logits(const Logits& logits, int32_t row) const;
  void append(const Reservation& reservation) noexcept;
  void append_job(JobRecord& job, const ReservedSequence& reserved,
                  const AcceptedSequence& accepted) noexcept;
  void emit(JobRecord& job);
  void measure_step() noexcept;
  void time_step() noexcept;
  void count_tokens(JobRecord& job, const ReservedSequence& reserved, int32_t num_new) noexcept;
  void measure_token(JobRecord& job) noexcept;
  void measure_reuse(const JobRecord& job) noexcept;
  void blame(ErrorCode code, std::string_view message) noexcept;
  void audit() const;
  void count_pinned_pages() noexcept;

  const Runtime& runtime_;
  const CacheParts parts_;
  const CacheOptions options_;
  const ExecutorLimits limits_;
  Executor& executor_;
  JobQueue& queue_;
  KvCache kv_;
  Sampler sampler_;
  NameSpaces name_spaces_;
  PolicyLimits policy_limits_;

  Jobs running_;
  Jobs waiting_;
  bool any_ended_ = false;  // some record waits for the sweep
  EventBatch told_;         // streams that got events since their queues were told
  std::vector<Pin> pins_;
  uint64_t last_pin_ = 0;
  TimePoint now_;
  TimePoint next_deadline_ = TimePoint::max();
  int32_t plan_failures_ = 0;
  TimePoint plan_again_ = TimePoint::max();  // where there was no memory for a plan
  MetricsBook book_;
  std::atomic<int64_t> step_started_ns_{0};
  mutable Mutex fastest_mutex_;
  FastestSteps fastest_steps_ QUIRE_GUARDED_BY(fastest_mutex_);

  // Of the current step; kept to be used again.
  std::vector<RunningView> running_views_;
  std::vector<WaitingView> waiting_views_;
  PolicyOutput policy_;
  std::vector<WaitReason> wait_reasons_;  // as waiting_
  StepPlan plan_;
  std::vector<JobRecord*> planned_jobs_;  // as in plan_
  std::vector<JobRecord*> admitted_;
  Batch batch_;
  Batch next_;                         // the step behind it, where that is issued ahead
  std::vector<JobId> following_jobs_;  // as in next_; empty where there is none
  bool queue_is_settled_ = false;  // nobody who waits could begin before a job ends or something is asked for
  Accepted accepted_;
  std::vector<float> states_;
};

}  // namespace quire
