#include "core/engine/events/event_queue.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"
#include "core/engine/deadline.h"
#include "core/engine/events/event_stream.h"

namespace quire {

EventQueue::EventQueue(const Clock& clock) : clock_(clock) {}

EventQueue::~EventQueue() {
  // One by one: releasing the head alone would recurse through the whole list.
  while (take_ready() != nullptr) {
  }
  const MutexLock lock(mutex_);
  if (fd_ >= 0) ::close(fd_);
}

// Streams are listed at most once, so the list needs no memory of its own. A stream that cannot be pinned any
// more is being destroyed and has no reader.
void EventQueue::announce(EventStream& stream) noexcept {
  std::shared_ptr<EventStream> pinned = stream.weak_from_this().lock();
  if (pinned == nullptr) return;
  const MutexLock lock(mutex_);
  if (pinned->listed_) return;
  pinned->listed_ = true;
  EventStream* const tail = pinned.get();
  (ready_tail_ == nullptr ? ready_head_ : ready_tail_->next_ready_) = std::move(pinned);
  ready_tail_ = tail;
  signal();
  ready_condition_.notify_one();
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
  // Cleared before its events are taken: whatever is pushed from here on lists it again.
  stream->listed_ = false;
  return stream;
}

namespace {

// Room for one event more, before it is taken from its job: what is taken and cannot be kept is lost. False
// where there is no memory, but events to hand out already.
bool make_room(std::vector<Event>& events, size_t max_events) {
  if (events.size() < events.capacity()) return true;
  try {
    events.reserve(std::min(max_events, std::max<size_t>(8, 2 * events.size())));
  } catch (const std::bad_alloc&) {
    if (events.empty()) throw;
    return false;
  }
  return true;
}

}  // namespace

std::vector<Event> EventQueue::drain(size_t max_events, Duration timeout) {
  std::vector<Event> events;
  const TimePoint deadline = deadline_after(clock_.now(), timeout);
  while (events.size() < max_events && make_room(events, max_events)) {
    const std::shared_ptr<EventStream> stream = take_ready();
    if (stream != nullptr) {
      if (auto event = stream->try_poll()) events.push_back(std::move(*event));
      if (stream->has_events()) announce(*stream);
      continue;
    }
    if (!events.empty() || timeout <= Duration{0}) break;
    MutexLock lock(mutex_);
    const auto ready = [this]() QUIRE_NO_THREAD_ANALYSIS { return ready_head_ != nullptr || closed_; };
    if (closed_) break;
    if (!clock_.wait_until(ready_condition_, lock.native(), deadline, ready)) break;
  }
  return events;
}

int EventQueue::file_descriptor() {
  const MutexLock lock(mutex_);
  if (fd_ < 0) {
    fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd_ < 0) {
      throw Error(ErrorCode::io, "no descriptor for the event queue: {}",
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
