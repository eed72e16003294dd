#include "core/engine/events/event_queue.h"

#include <cerrno>
#include <new>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/engine/events/event_stream.h"

namespace quire {

EventQueue::EventQueue(const Clock& clock) : clock_(clock) {}

EventQueue::~EventQueue() {
  // Release one by one: releasing only the head would recurse through the whole list.
  while (take_ready() != nullptr) {
  }
  const MutexLock lock(mutex_);
  if (fd_ >= 0) ::close(fd_);
}

// A stream without owners is being destroyed and has no reader.
void EventQueue::announce(EventStream& stream) noexcept {
  const std::shared_ptr<EventStream> pinned = stream.weak_from_this().lock();
  if (pinned != nullptr) announce(gsl::span<const std::shared_ptr<EventStream>>(&pinned, 1));
}

void EventQueue::announce(gsl::span<const std::shared_ptr<EventStream>> streams) noexcept {
  const MutexLock lock(mutex_);
  for (const auto& stream : streams) list(stream);
  signal();
  streams.size() == 1 ? ready_condition_.notify_one() : ready_condition_.notify_all();
}

// A stream is listed at most once, and the list is linked through the streams, so it allocates no memory.
void EventQueue::list(std::shared_ptr<EventStream> stream) noexcept {
  if (stream->listed_) return;
  stream->listed_ = true;
  EventStream* const tail = stream.get();
  (ready_tail_ == nullptr ? ready_head_ : ready_tail_->next_ready_) = std::move(stream);
  ready_tail_ = tail;
}

std::shared_ptr<EventStream> EventQueue::take_ready() {
  const MutexLock lock(mutex_);
  if (ready_head_ == nullptr) return nullptr;
  std::shared_ptr<EventStream> stream = std::move(ready_head_);
  ready_head_ = std::move(stream->next_ready_);
  if (ready_head_ == nullptr) {
    ready_tail_ = nullptr;
    if (!closed_) unsignal();
  }
  // Cleared before its events are taken: an event pushed from here on lists the stream again.
  stream->listed_ = false;
  return stream;
}

// Returns false if the time is over, the wait was cancelled, or the queue is closed.
bool EventQueue::wait_for_event(const Wait& wait, TimePoint deadline) {
  if (wait.timeout <= Duration{0}) return false;
  const CancelSwitch::Listener listener(wait.cancel, mutex_, ready_condition_);
  MutexLock lock(mutex_);
  const auto over = [&]() QUIRE_NO_THREAD_ANALYSIS { return ready_head_ || closed_ || wait.cancelled(); };
  clock_.wait_until(ready_condition_, lock.native(), deadline, over);
  return ready_head_ != nullptr;
}

// Calls `take` until it has taken something or no more events will come.
template <typename Take>
WaitEnd EventQueue::take_until(const Wait& wait, const Take& take) {
  const TimePoint deadline = deadline_after(clock_.now(), wait.timeout);
  for (;;) {
    // Events pushed before the close are still delivered, so read the flag before `take`.
    const bool was_closed = closed();
    if (take()) return WaitEnd::ready;
    if (was_closed) return WaitEnd::end;
    if (wait.cancelled()) return WaitEnd::cancelled;
    if (!wait_for_event(wait, deadline) && !closed() && !wait.cancelled()) return WaitEnd::timeout;
  }
}

WaitEnd EventQueue::drain(const Wait& wait, size_t max_events, std::vector<Event>& out) {
  const size_t num_before = out.size();
  return take_until(wait, [&] {
    while (out.size() - num_before < max_events) {
      const std::shared_ptr<EventStream> stream = take_ready();
      if (stream == nullptr) break;
      const gsl::final_action list_again([&] {
        if (stream->has_events()) announce(*stream);
      });
      try {
        stream->drain(Duration{0}, 1, out);
      } catch (const std::bad_alloc&) {  // the event stays in its stream
        if (out.size() == num_before) throw;
        break;
      }
    }
    return out.size() > num_before;
  });
}

WaitEnd EventQueue::ready(const Wait& wait, size_t max_jobs, std::vector<JobId>& out) {
  const size_t num_before = out.size();
  out.reserve(num_before + max_jobs);
  return take_until(wait, [&] {
    while (out.size() - num_before < max_jobs) {
      const std::shared_ptr<EventStream> stream = take_ready();
      if (stream == nullptr) break;
      out.push_back(stream->options().job);
    }
    return out.size() > num_before;
  });
}

std::vector<Event> EventQueue::drain(size_t max_events, Duration timeout) {
  std::vector<Event> events;
  drain(timeout, max_events, events);
  return events;
}

int EventQueue::file_descriptor() {
  const MutexLock lock(mutex_);
  if (fd_ < 0) {
    fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd_ < 0) {
      throw Error(ErrorCode::io, "the event queue cannot create a file descriptor: {}",
                  std::generic_category().message(errno));
    }
    if (ready_head_ != nullptr || closed_) signal();
  }
  return fd_;
}

void EventQueue::close() noexcept {
  const MutexLock lock(mutex_);
  closed_ = true;
  signal();
  ready_condition_.notify_all();
}

bool EventQueue::closed() const {
  const MutexLock lock(mutex_);
  return closed_;
}

void EventQueue::signal() {
  if (fd_ < 0 || fd_signalled_) return;
  const uint64_t one = 1;
  fd_signalled_ = ::write(fd_, &one, sizeof one) == sizeof one;
}

void EventQueue::unsignal() {
  if (fd_ < 0 || !fd_signalled_) return;
  uint64_t count = 0;
  fd_signalled_ = ::read(fd_, &count, sizeof count) != sizeof count;
}

}  // namespace quire
