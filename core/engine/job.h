// The caller's end of one job.
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

// Any thread may call anything at any time; nothing waits for the engine but poll and wait, with their
// timeouts. Keeps its cache alive. Dropping the last reference cancels the job without waiting for it, and
// its unread events are gone.
class Job {
 public:
  Job(std::shared_ptr<Engine> cache, std::shared_ptr<JobChannel> channel);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  JobId id() const;
  uint64_t tag() const;

  // Takes up to max_events events after those of `out`, which has room for them, waiting for the first and
  // not for the others. WaitEnd::end once the terminal event has been taken. Two readers share the events:
  // each goes to exactly one of them.
  WaitEnd drain(const Wait& wait, size_t max_events, std::vector<Event>& out);
  // The next one; nothing where none came in time, or where the terminal event has been taken.
  std::optional<Event> poll(Duration timeout);
  // True once the terminal event has been taken; no more events will come.
  bool drained() const;
  // Waits until the job is over, whatever is left unread.
  WaitEnd wait_for_end(const Wait& wait) const;
  bool wait(Duration timeout) const { return wait_for_end(timeout) == WaitEnd::ready; }

  // Ends the job with FinishReason::cancelled within one step (or one chunk of the prompt); no-op where it is
  // over. Its pages go back with the same step.
  void cancel() noexcept;
  // A paused job keeps its pages but takes part in no step until resume. Under pressure it is preempted
  // first.
  void pause();
  void resume();
  // Throws ErrorCode::invalid_argument outside -1000 to 1000.
  void set_priority(int32_t priority);
  // Keeps the first num_new_tokens of the generated tokens and goes on from there with the same seed. Where
  // more than that was shown, an event says what of it stands. num_new_tokens above what there is, or a
  // finished job, changes nothing.
  void rewind(int32_t num_new_tokens);
  // A second job that goes on from the tokens of this one, with a seed of its own; pages are shared until one
  // of them writes. Takes place between two steps; where this job is over by then, the fork fails with
  // ErrorCode::closed, and where it could never fit with ErrorCode::capacity or quota. Throws like
  // Cache::submit where the queue is full, and ErrorCode::invalid_argument for a job that does not generate.
  std::shared_ptr<Job> fork(const ForkOptions& options);

  JobState state() const;
  JobResult result() const;
  // One line: why the job waits, what it does, or how it ended. Numbers, never text of the job.
  std::string explain() const;

  // Of a finished scoring job: [prompt - 1] natural logarithms, the i-th of prompt[i + 1] given all before.
  std::vector<float> scores() const;
  // With want_raw_logits: [prompt, vocabulary], row-major. Empty otherwise.
  std::vector<float> raw_logits() const;
  // Of a finished embedding job: one vector.
  std::vector<float> embedding() const;
  // The same without a copy, given to `read`, which must not wait.
  using ReadValues = std::function<void(gsl::span<const float>)>;
  void read_scores(const ReadValues& read) const;
  void read_raw_logits(const ReadValues& read) const;
  void read_embedding(const ReadValues& read) const;
  // The seed that the tokens are drawn with, which a request may leave to chance.
  uint64_t seed() const;

  const std::shared_ptr<Engine>& cache() const { return cache_; }

 private:
  template <typename Change>
  void change(Change change);

  std::shared_ptr<Engine> cache_;
  std::shared_ptr<JobChannel> channel_;
};

}  // namespace quire
