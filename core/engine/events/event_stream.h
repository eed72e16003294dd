// Bounded buffer between the engine and the reader of one job. Applies backpressure to a slow reader: its
// events are merged, or the job pauses or ends.
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
  JobId job;                             // the job of the events
  std::shared_ptr<EngineSignal> engine;  // notified when a reader has caught up; may be null
};

// Streams that got events in one step. Their queues are notified together after it: a waiter wakes once and
// finds the events of all its jobs. Not thread-safe.
class EventBatch {
 public:
  void reserve(size_t num_streams) { streams_.reserve(num_streams); }
  // Notifies the queue at once if there is no memory to defer it.
  void add(EventStream& stream) noexcept;
  void flush() noexcept;

 private:
  std::vector<std::shared_ptr<EventStream>> streams_;
};

// Thread-safe: the engine pushes, readers poll. Lock order: no other lock is taken while this lock is held.
class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  explicit EventStream(EventStreamOptions options) : options_(std::move(options)) {}

  const EventStreamOptions& options() const { return options_; }

  // Adds an event. Returns false, without adding it, if the buffer is full and the policy is to end the job.
  // Throws if memory is short, and then changes nothing. Drops events after the terminal one and events
  // without a reader. Readers that wait on the job wake at once; its queue is notified with `batch`, or at
  // once if that is null.
  bool push(Event&& event, EventBatch* batch = nullptr);
  // Adds the terminal event. Drops all but the first.
  void finish(Event&& terminal, EventBatch* batch = nullptr) noexcept;
  // True if the policy is to pause the job and the reader is slow.
  bool is_throttled() const { return is_throttled_.load(std::memory_order_relaxed); }

  // See Job::drain.
  WaitEnd drain(const Wait& wait, size_t max_events, std::vector<Event>& out);
  std::optional<Event> poll(Duration timeout);
  std::optional<Event> try_poll() { return poll(Duration{0}); }
  bool has_events() const;
  bool drained() const;
  WaitEnd wait_for_end(const Wait& wait) const;
  bool wait_finished(Duration timeout) const { return wait_for_end(timeout) == WaitEnd::ready; }
  // Called when no reader will take events any more.
  void abandon() noexcept;

 private:
  friend class EventQueue;
  friend class EventBatch;

  template <typename Ready>
  void wait_until_ready(const Wait& wait, const Ready& ready) const;
  void coalesce(Event&& event) QUIRE_REQUIRES(mutex_);
  void take(std::vector<Event>& out) QUIRE_REQUIRES(mutex_);
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
  std::atomic<bool> is_throttled_{false};

  // Guarded by the mutex of the queue.
  std::shared_ptr<EventStream> next_ready_;
  bool listed_ = false;
  // Used by the pushing thread only.
  bool in_batch_ = false;
};

}  // namespace quire
