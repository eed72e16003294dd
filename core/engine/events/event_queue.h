// One waitable stream of the events of many jobs, of any number of caches.
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

// Any thread may call anything. A job joins by JobRequest::queue; its events may still be polled from the job
// itself, each is delivered once. Does not keep jobs alive: a dropped job's unread events are gone.
class EventQueue {
 public:
  explicit EventQueue(const Clock& clock = steady_clock());
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  // Takes up to max_events events after those of `out`, waiting for the first and not for the others. Jobs
  // take turns; the events of one job keep their order. After close: what is left, then WaitEnd::end.
  WaitEnd drain(const Wait& wait, size_t max_events, std::vector<Event>& out);
  // The same without a word on why there are none.
  std::vector<Event> drain(size_t max_events, Duration timeout);

  // Tells which jobs have events, waiting for the first and not for the others, and takes none: each is told
  // once, and again after it got more. Who is told takes the events from the job.
  WaitEnd ready(const Wait& wait, size_t max_jobs, std::vector<JobId>& out);

  // A descriptor that is readable (level-triggered) while events are waiting or the queue is closed; for
  // epoll and poll only, never to be read or closed by the caller. It lives as long as the queue. Throws
  // ErrorCode::io where the system has no more descriptors.
  int file_descriptor();

  // Wakes every waiter. Jobs go on; their events stay with them. Twice is once.
  void close() noexcept;
  bool closed() const;

 private:
  friend class EventBatch;
  friend class EventStream;
  // Of streams that have events; never fails, takes no memory.
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
