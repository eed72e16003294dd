// What the two ends of a job share: the caller's Job and the engine's JobRecord.
#pragma once

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

// Why a queued job is not running, as the scheduler last saw it.
enum class WaitCause : int32_t { none, turn, slots, pages, quota_jobs, quota_pages, shared_prefix, model };

struct WaitReason {
  WaitCause cause = WaitCause::none;
  int32_t needed_pages = 0;
  int32_t available_pages = 0;  // of its namespace's quota where that is the cause
  int32_t running_jobs = 0;     // of its namespace where its quota is the cause
  JobId next_release;           // the running job that is expected to end first; 0 where none is
  JobId in_front;               // with turn: the waiting job that is next and does not fit; 0 where none is

  bool operator==(const WaitReason&) const = default;
};

// What scoring and embedding jobs give.
struct JobOutput {
  std::vector<float> scores;
  std::vector<float> raw_logits;
  std::vector<float> embedding;
};

// How far a job is, written by the engine step by step. A time of max() has not come.
struct JobProgress {
  std::atomic<TimePoint> submitted{TimePoint::max()};
  std::atomic<TimePoint> started{TimePoint::max()};
  std::atomic<TimePoint> first_token{TimePoint::max()};
  std::atomic<int32_t> prompt_tokens{0};
  std::atomic<int32_t> cached_tokens{0};
  std::atomic<int32_t> computed_tokens{0};  // of the prompt, and what is computed again after a preemption
  std::atomic<int32_t> new_tokens{0};
  std::atomic<int32_t> draft_tokens{0};
  std::atomic<int32_t> accepted_draft_tokens{0};
  std::atomic<int32_t> preemptions{0};
  std::atomic<bool> gave_room{false};  // it was preempted and has not begun again
  std::atomic<int32_t> batch_jobs{0};  // sequences of the last step it took part in, itself included
};

// How a reader of many jobs tells one from the others.
struct JobMark {
  uint64_t tag = 0;
  int32_t index = 0;  // of the completions that were submitted together
  uint64_t seed = 0;
};

// Any thread. The engine writes, readers read; whoever ends the job first decides how it ended.
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

  // `event` as one of this job.
  Event make_event(EventKind event_kind, Event event = {}) const;
  // Result, state and terminal event in one; false where the job was over already.
  bool finish(JobResult&& result, EventBatch* batch = nullptr) noexcept;
  bool over() const { return over_.load(std::memory_order_acquire); }

  void set_wait_reason(const WaitReason& reason) noexcept;
  void set_output(JobOutput&& output) noexcept;

  // Counts and times so far where the job is not over.
  JobResult result() const;
  WaitReason wait_reason() const;
  // Runs `read` on the output, without a copy; it must not wait.
  template <typename Read>
  auto read_output(Read&& read) const {
    const MutexLock lock(mutex_);
    return read(output_);
  }

 private:
  JobResult result_so_far() const;

  std::atomic<bool> over_{false};
  mutable Mutex mutex_;
  std::optional<JobResult> result_ QUIRE_GUARDED_BY(mutex_);
  WaitReason wait_reason_ QUIRE_GUARDED_BY(mutex_);
  JobOutput output_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
