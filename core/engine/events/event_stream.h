// The bounded buffer between the engine and the reader of one job.
// Applies backpressure: a job whose reader is slow pauses, joins its events or ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/engine_signal.h"
#include "core/base/mutex.h"
#include "core/base/wait.h"
#include "core/engine/events/event.h"

namespace quire {

class EventQueue;
class EventStream;

struct EventStreamOptions {
  const Clock* clock = &steady_clock();
  SlowReaderPolicy policy = SlowReaderPolicy::coalesce;
  int32_t max_unread = 64;
  std::weak_ptr<EventQueue> queue;
  JobId job;                             // whose events these are
  std::shared_ptr<EngineSignal> engine;  // told when a reader has caught up; may be null
};

// Streams that got events in one step, told to their queues together after it: a wait in a queue wakes
// once and finds the events of all its jobs. One thread at a time.
class EventBatch {
 public:
  void reserve(size_t num_streams) { streams_.reserve(num_streams); }
  // Tells the queue at once where there is no memory to put it off.
  void add(EventStream& stream) noexcept;
  void flush() noexcept;

 private:
  std::vector<std::shared_ptr<EventStream>> streams_;
};

// The engine pushes, readers poll; any thread each. Lock order: this lock is never held while another one is
// taken.
class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  explicit EventStream(EventStreamOptions options) : options_(std::move(options)) {}

  const EventStreamOptions& options() const { return options_; }

  // False where the buffer is full and the policy is to end the job; the event is dropped then. May throw for
  // want of memory, and then changes nothing. Events after the terminal one, or without a reader, are
  // dropped.
  // Those that wait in the job wake at once; its queue is told with `batch`, or at once where there is none.
  bool push(Event&& event, EventBatch* batch = nullptr);
  // The terminal event; the second and later ones are dropped.
  void finish(Event&& terminal, EventBatch* batch = nullptr) noexcept;
  // True where the policy is to pause the job and the reader is slow.
  bool holds_back() const { return holds_back_.load(std::memory_order_relaxed); }

  // Job::drain.
  WaitEnd drain(const Wait& wait, size_t max_events, std::vector<Event>& out);
  std::optional<Event> poll(Duration timeout);
  std::optional<Event> try_poll() { return poll(Duration{0}); }
  bool has_events() const;
  bool drained() const;
  WaitEnd wait_for_end(const Wait& wait) const;
  bool wait_finished(Duration timeout) const { return wait_for_end(timeout) == WaitEnd::ready; }
  // The reader is gone for good.
  void abandon() noexcept;

 private:
  friend class EventQueue;
  friend class EventBatch;

  template <typename Ready>
  void wait_until_ready(const Wait& wait, const Ready& ready) const;
  void coalesce(Event&& event) QUIRE_REQUIRES(mutex_);
  Event take() QUIRE_REQUIRES(mutex_);
  bool caught_up() QUIRE_REQUIRES(mutex_);
  void announce(EventBatch* batch) noexcept;

  const EventStreamOptions options_;
  mutable Mutex mutex_;
  mutable std::condition_variable condition_;
  std::deque<Event> events_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Event> terminal_ QUIRE_GUARDED_BY(mutex_);
  bool finished_ QUIRE_GUARDED_BY(mutex_) = false;
  bool drained_ QUIRE_GUARDED_BY(mutex_) = false;
  bool abandoned_ QUIRE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> holds_back_{false};

  // Guarded by the mutex of the queue.
  std::shared_ptr<EventStream> next_ready_;
  bool listed_ = false;
  // Of the thread that pushes.
  bool in_batch_ = false;
};

}  // namespace quire
