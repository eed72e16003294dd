// Event queue: one waitable stream of the events of many jobs of any number of engines.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/wait.h"
#include "core/engine/events/event.h"

namespace quire {

class EventStream;

// Thread-safe. JobRequest::queue connects a job. Its events can still be polled from the job; each event is
// delivered once. Does not keep jobs alive: unread events of a dropped job are discarded.
class EventQueue {
 public:
  explicit EventQueue(const Clock& clock = steady_clock());
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Appends up to max_events events to `out`, waiting only for the first. Takes them from the jobs in turn;
  // the events of one job keep their order. After close returns the remaining events, then WaitEnd::end.
  WaitEnd drain(const Wait& wait, size_t max_events, std::vector<Event>& out);
  // Returns the events alone, without the reason if there are none.
  std::vector<Event> drain(size_t max_events, Duration timeout);

  // Appends the ids of jobs that have events, waiting only for the first, and takes no events. Each job is
  // reported once, and again after it gets more events. The caller then takes the events from the job.
  WaitEnd ready(const Wait& wait, size_t max_jobs, std::vector<JobId>& out);

  // Returns a file descriptor that is readable (level-triggered) while events are waiting or the queue is
  // closed. Use it with epoll or poll only; the caller must not read or close it. It lives as long as the
  // queue. Throws ErrorCode::io if the system has no more descriptors.
  int file_descriptor();

  // Wakes all waiters. Jobs continue and keep their events. May be called repeatedly.
  void close() noexcept;
  bool closed() const;

 private:
  friend class EventBatch;
  friend class EventStream;
  // Lists streams that have events. Cannot fail and allocates no memory.
  void announce(EventStream& stream) noexcept;
  void announce(gsl::span<const std::shared_ptr<EventStream>> streams) noexcept;
  void list(std::shared_ptr<EventStream> stream) noexcept QUIRE_REQUIRES(mutex_);
  template <typename Take>
  WaitEnd take_until(const Wait& wait, const Take& take);
  bool wait_for_event(const Wait& wait, TimePoint deadline);
  std::shared_ptr<EventStream> take_ready();
  void signal() QUIRE_REQUIRES(mutex_);
  void unsignal() QUIRE_REQUIRES(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::condition_variable ready_condition_;
  std::shared_ptr<EventStream> ready_head_ QUIRE_GUARDED_BY(mutex_);  // linked through the streams
  EventStream* ready_tail_ QUIRE_GUARDED_BY(mutex_) = nullptr;
  int fd_ QUIRE_GUARDED_BY(mutex_) = -1;
  bool fd_signalled_ QUIRE_GUARDED_BY(mutex_) = false;
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire
