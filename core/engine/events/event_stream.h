// The bounded buffer between the engine and the reader of one job.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/engine/events/event.h"
#include "core/engine/loop/engine_signal.h"

namespace quire {

class EventQueue;

struct EventStreamOptions {
  const Clock* clock = &steady_clock();
  SlowReaderPolicy policy = SlowReaderPolicy::coalesce;
  int32_t max_unread = 64;
  std::weak_ptr<EventQueue> queue;
  std::shared_ptr<EngineSignal> engine;  // told when a reader has caught up; may be null
};

// The engine pushes, readers poll; any thread each. Lock order: this lock is never held while another one is
// taken.
class EventStream : public std::enable_shared_from_this<EventStream> {
 public:
  explicit EventStream(EventStreamOptions options) : options_(std::move(options)) {}

  const EventStreamOptions& options() const { return options_; }

  // False where the buffer is full and the policy is to end the job; the event is dropped then. May throw for
  // want of memory, and then changes nothing. Events behind the terminal one, or without a reader, are
  // dropped.
  bool push(Event&& event);
  // The terminal event; the second and later ones are dropped.
  void finish(Event&& terminal) noexcept;
  // True where the policy is to pause the job and the reader is behind.
  bool holds_back() const { return holds_back_.load(std::memory_order_relaxed); }

  std::optional<Event> poll(Duration timeout);
  std::optional<Event> try_poll() { return poll(Duration{0}); }
  bool has_events() const;
  bool drained() const;
  bool wait_finished(Duration timeout) const;
  // The reader is gone for good.
  void abandon() noexcept;

 private:
  friend class EventQueue;

  void coalesce(Event&& event) QUIRE_REQUIRES(mutex_);
  std::optional<Event> take() QUIRE_REQUIRES(mutex_);
  void announce() noexcept;

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
};

}  // namespace quire
