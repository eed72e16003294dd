// The caller's handle of one job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/wait.h"
#include "core/engine/events/event.h"
#include "core/engine/settings/job_state.h"

namespace quire {

class Engine;
class JobChannel;

// Thread-safe. Only drain, poll and wait block, for at most their timeouts. Keeps its engine alive. Dropping
// the last reference cancels the job without waiting for it and discards its unread events.
class Job {
 public:
  Job(std::shared_ptr<Engine> cache, std::shared_ptr<JobChannel> channel);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  JobId id() const;
  uint64_t tag() const;

  // Appends up to max_events events to `out`, which must have enough capacity. Waits only for the first
  // event. Returns WaitEnd::end once the terminal event has been taken. If two readers drain the same job,
  // each event goes to exactly one of them.
  WaitEnd drain(const Wait& wait, size_t max_events, std::vector<Event>& out);
  // Returns the next event, or nothing if none arrived in time or the terminal event has been taken.
  std::optional<Event> poll(Duration timeout);
  // True once the terminal event has been taken: no more events will come.
  bool drained() const;
  // Waits until the job has finished, even if events are unread.
  WaitEnd wait_for_end(const Wait& wait) const;
  bool wait(Duration timeout) const { return wait_for_end(timeout) == WaitEnd::ready; }

  // Ends the job with FinishReason::cancelled within one step (or one chunk of the prompt), and frees its
  // pages in the same step. Does nothing if the job has finished.
  void cancel() noexcept;
  // Stops running the job until resume; the job keeps its pages. If memory is short, paused jobs are
  // preempted first.
  void pause();
  void resume();
  // Throws ErrorCode::invalid_argument if `priority` is outside -1000 to 1000.
  void set_priority(int32_t priority);
  // Discards the generated tokens after the first num_new_tokens and continues from there with the same seed.
  // If text of discarded tokens was already emitted, an event reports how much of it remains valid. Does
  // nothing if fewer tokens exist or the job has finished.
  void rewind(int32_t num_new_tokens);
  // Creates a second job that continues from the tokens of this one with its own seed. Pages are shared until
  // one of the jobs writes. The fork takes place between two steps: if this job has finished by then, the new
  // job fails with ErrorCode::closed; if it can never fit, with ErrorCode::too_large. Throws like
  // Engine::submit if the queue is full, and ErrorCode::invalid_argument for a job that does not generate.
  std::shared_ptr<Job> fork(const ForkOptions& options);

  JobState state() const;
  JobResult result() const;
  // Returns one line: why the job waits, what it does, or how it ended. Contains numbers, never text of the
  // job.
  std::string explain() const;

  // Returns the [prompt - 1] natural log probabilities of a finished scoring job: entry i is that of prompt[i
  // + 1] given all tokens before it.
  std::vector<float> scores() const;
  // Returns logits [prompt, vocabulary], row-major, if want_raw_logits was set; otherwise an empty vector.
  std::vector<float> raw_logits() const;
  // Returns the vector of a finished embedding job.
  std::vector<float> embedding() const;
  // Pass scores, logits or embedding to `read` without a copy. `read` must not block.
  using ReadValues = std::function<void(gsl::span<const float>)>;
  void read_scores(const ReadValues& read) const;
  void read_raw_logits(const ReadValues& read) const;
  void read_embedding(const ReadValues& read) const;
  // Returns the seed for sampling: that of the request, or the one drawn if it set none.
  uint64_t seed() const;

  const std::shared_ptr<Engine>& cache() const { return cache_; }

 private:
  template <typename Change>
  void change(Change change);

  std::shared_ptr<Engine> cache_;
  std::shared_ptr<JobChannel> channel_;
};

}  // namespace quire
