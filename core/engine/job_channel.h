// What the two ends of a job share: the caller's Job and the engine's JobRecord.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/engine/event_stream.h"
#include "core/engine/job.h"
#include "core/engine/job_request.h"

namespace quire {

// Why a queued job is not running, as the scheduler last saw it.
enum class WaitCause : int32_t { none, turn, slots, pages, quota, shared_prefix, overtaking };

struct WaitReason {
  WaitCause cause = WaitCause::none;
  int32_t needed_pages = 0;
  int32_t available_pages = 0;
  int32_t running_jobs = 0;
  JobId next_release;  // the running job that is expected to end first; 0 where none is
};

// What scoring and embedding jobs leave behind.
struct JobOutput {
  std::vector<float> scores;
  std::vector<float> raw_logits;
  std::vector<float> embedding;
};

// Any thread. The engine writes, readers read; whoever ends the job first decides how it ended.
class JobChannel {
 public:
  JobChannel(JobId job, JobKind kind, uint64_t tag, std::string name_space,
             const EventStreamOptions& options);

  const JobId id;
  const JobKind kind;
  const uint64_t tag;
  const std::string name_space;
  const std::shared_ptr<EventStream> stream;
  std::atomic<bool> cancel_requested{false};
  std::atomic<JobState> state{JobState::queued};
  std::atomic<int32_t> new_tokens{0};
  std::atomic<int32_t> computed_tokens{0};

  // Result, state and terminal event in one; false where the job was over already.
  bool finish(JobResult&& result) noexcept;
  bool over() const { return over_.load(std::memory_order_acquire); }

  void set_progress(const JobResult& result);
  void set_wait_reason(const WaitReason& reason) noexcept;
  void set_output(JobOutput&& output) noexcept;

  JobResult result() const;
  WaitReason wait_reason() const;
  JobOutput output() const;

 private:
  std::atomic<bool> over_{false};
  mutable Mutex mutex_;
  JobResult result_ QUIRE_GUARDED_BY(mutex_);
  WaitReason wait_reason_ QUIRE_GUARDED_BY(mutex_);
  JobOutput output_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire
