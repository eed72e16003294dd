#include "core/engine/events/event_stream.h"

#include <iterator>
#include <utility>

#include "core/engine/deadline.h"
#include "core/engine/events/event_queue.h"

namespace quire {

namespace {

template <typename T>
void reserve_more(T& target, const T& more) {
  target.reserve(target.size() + more.size());
}

template <typename T>
void append_moved(T& target, T&& more) {
  target.insert(target.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// Memory first, so that a failure changes nothing.
void join_text(Event& target, Event&& more) {
  reserve_more(target.text, more.text);
  reserve_more(target.token_ids, more.token_ids);
  reserve_more(target.log_probs, more.log_probs);
  reserve_more(target.top_log_probs, more.top_log_probs);
  target.text += more.text;
  append_moved(target.token_ids, std::move(more.token_ids));
  append_moved(target.log_probs, std::move(more.log_probs));
  append_moved(target.top_log_probs, std::move(more.top_log_probs));
}

}  // namespace

bool EventStream::push(Event&& event) {
  {
    const MutexLock lock(mutex_);
    if (abandoned_ || finished_) return true;
    const bool full = events_.size() >= static_cast<size_t>(options_.max_unread);
    if (full && options_.policy == SlowReaderPolicy::end) return false;
    if (full && options_.policy == SlowReaderPolicy::coalesce && events_.back().kind == event.kind) {
      coalesce(std::move(event));
    } else {
      events_.push_back(std::move(event));
    }
    if (options_.policy == SlowReaderPolicy::pause) {
      holds_back_ = events_.size() >= static_cast<size_t>(options_.max_unread);
    }
    condition_.notify_all();
  }
  announce();
  return true;
}

void EventStream::coalesce(Event&& event) {
  if (event.kind == EventKind::text) {
    join_text(events_.back(), std::move(event));
  } else {
    events_.back() = std::move(event);
  }
}

void EventStream::finish(Event&& terminal) noexcept {
  {
    const MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    if (!abandoned_) terminal_.emplace(std::move(terminal));
    condition_.notify_all();
  }
  announce();
}

std::optional<Event> EventStream::take() {
  std::optional<Event> event;
  if (!events_.empty()) {
    event.emplace(std::move(events_.front()));
    events_.pop_front();
  } else if (terminal_.has_value()) {
    event.swap(terminal_);
    drained_ = true;
    condition_.notify_all();  // other readers learn that nothing more comes
  }
  return event;
}

std::optional<Event> EventStream::poll(Duration timeout) {
  std::optional<Event> event;
  bool caught_up = false;
  {
    MutexLock lock(mutex_);
    const auto ready = [this]()
                           QUIRE_NO_THREAD_ANALYSIS { return !events_.empty() || finished_ || abandoned_; };
    if (timeout > Duration{0} && !ready()) {
      options_.clock->wait_until(condition_, lock.native(), deadline_after(options_.clock->now(), timeout),
                                 ready);
    }
    event = take();
    if (holds_back_ && events_.size() < static_cast<size_t>(options_.max_unread)) {
      holds_back_ = false;
      caught_up = true;
    }
  }
  if (caught_up && options_.engine) options_.engine->notify();
  return event;
}

bool EventStream::has_events() const {
  const MutexLock lock(mutex_);
  return !events_.empty() || terminal_.has_value();
}

bool EventStream::drained() const {
  const MutexLock lock(mutex_);
  return drained_;
}

bool EventStream::wait_finished(Duration timeout) const {
  MutexLock lock(mutex_);
  const auto ready = [this]() QUIRE_NO_THREAD_ANALYSIS { return finished_; };
  if (finished_ || timeout <= Duration{0}) return finished_;
  return options_.clock->wait_until(condition_, lock.native(), deadline_after(options_.clock->now(), timeout),
                                    ready);
}

void EventStream::abandon() noexcept {
  const MutexLock lock(mutex_);
  abandoned_ = true;
  events_.clear();
  terminal_.reset();
  holds_back_ = false;
  condition_.notify_all();
}

void EventStream::announce() noexcept {
  if (const auto queue = options_.queue.lock()) queue->announce(*this);
}

}  // namespace quire
