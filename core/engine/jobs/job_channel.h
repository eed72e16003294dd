// State that the caller's Job and the engine's JobRecord share.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/events/event_stream.h"
#include "core/engine/jobs/job_request.h"
#include "core/engine/settings/job_state.h"

namespace quire {

// Reason why a queued job is not running, from the last step.
enum class WaitCause : int32_t { none, turn, slots, pages, quota_jobs, quota_pages, shared_prefix, model };

struct WaitReason {
  WaitCause cause = WaitCause::none;
  int32_t needed_pages = 0;
  int32_t available_pages = 0;  // left in the quota of its namespace if that is the cause
  int32_t running_jobs = 0;     // of its namespace if its quota is the cause
  JobId next_release;           // running job that is expected to end first; 0: none
  JobId in_front;               // with `turn`: next job in the queue, which does not fit yet; 0: none

  bool operator==(const WaitReason&) const = default;
};

// Results of scoring and embedding jobs.
struct JobOutput {
  std::vector<float> scores;
  std::vector<float> raw_logits;
  std::vector<float> embedding;
};

// Draft tokens of a job so far, as in DraftUsage, and why its last step had none.
struct DraftProgress {
  std::atomic<int32_t> tokens{0};
  std::atomic<int32_t> accepted{0};
  std::array<std::atomic<int32_t>, kMaxDrafts> accepted_by_position{};
  std::atomic<DraftReason> reason{DraftReason::not_generating};
};

// Progress of a job, updated by the engine after each step. A time of max() has not been reached.
struct JobProgress {
  std::atomic<TimePoint> submitted{TimePoint::max()};
  std::atomic<TimePoint> started{TimePoint::max()};
  std::atomic<TimePoint> first_token{TimePoint::max()};
  std::atomic<int32_t> prompt_tokens{0};
  std::atomic<int32_t> cached_tokens{0};
  std::atomic<int32_t> computed_tokens{0};  // prompt tokens, and tokens recomputed after a preemption
  std::atomic<int32_t> new_tokens{0};
  DraftProgress drafts;
  std::atomic<int32_t> preemptions{0};
  std::atomic<bool> was_preempted{false};  // true from a preemption until the job is admitted again
  std::atomic<int32_t> batch_jobs{0};      // jobs in the batch of its last step, itself included
};

// Labels by which a reader of many jobs distinguishes them.
struct JobMark {
  uint64_t tag = 0;
  int32_t index = 0;  // of the completions that were submitted together
  uint64_t seed = 0;
};

// Thread-safe. The engine writes, readers read. The first call of finish decides how the job ended.
class JobChannel {
 public:
  JobChannel(JobKind kind, JobMark mark, std::string name_space, const EventStreamOptions& options);

  const JobId id;  // unique in the process
  const JobKind kind;
  const JobMark mark;
  const std::string name_space;
  const std::shared_ptr<EventStream> stream;
  std::atomic<bool> cancel_requested{false};
  std::atomic<JobState> state{JobState::queued};
  JobProgress progress;

  // Sets the kind and the labels of this job.
  void label(EventKind event_kind, Event& event) const;
  // Returns an event with the kind and the labels of this job.
  Event make_event(EventKind event_kind) const;
  // Sets result and state and sends the terminal event. Returns false if the job had already finished.
  bool finish(JobResult&& result, EventBatch* batch = nullptr) noexcept;
  bool over() const { return over_.load(std::memory_order_acquire); }

  void set_wait_reason(const WaitReason& reason) noexcept;
  void set_output(JobOutput&& output) noexcept;

  // Returns the counts and times so far if the job has not finished.
  JobResult result() const;
  // Returns these counts and times also if the job has finished. Takes no memory.
  JobResult result_so_far() const noexcept;
  WaitReason wait_reason() const;
  // Calls `read` with the output, without a copy. `read` must not block.
  template <typename Read>
  auto read_output(Read&& read) const {
    const MutexLock lock(mutex_);
    return read(output_);
  }

 private:
  std::atomic<bool> over_{false};
  mutable Mutex mutex_;
  std::optional<JobResult> result_ QUIRE_GUARDED_BY(mutex_);
  WaitReason wait_reason_ QUIRE_GUARDED_BY(mutex_);
  JobOutput output_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
