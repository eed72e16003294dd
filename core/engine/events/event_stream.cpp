#include "core/engine/events/event_stream.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <gsl/gsl>

#include "core/base/deadline.h"
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

bool can_join(const Event& one, const Event& next) {
  if (one.kind != next.kind || one.part.has_value() != next.part.has_value()) return false;
  if (!one.part) return true;
  using Kind = ResponseEvent::Kind;
  const Kind kind = one.part->kind;
  return kind == next.part->kind && one.part->call_idx == next.part->call_idx && kind != Kind::call_begin &&
         kind != Kind::call_end;
}

// Allocates first, so that a failure changes nothing.
void join_text(Event& target, Event&& more) {
  reserve_more(target.text, more.text);
  if (target.part) reserve_more(target.part->text, more.part->text);
  reserve_more(target.token_ids, more.token_ids);
  reserve_more(target.log_probs, more.log_probs);
  reserve_more(target.top_log_probs, more.top_log_probs);
  target.text += more.text;
  if (target.part) target.part->text += more.part->text;
  append_moved(target.token_ids, std::move(more.token_ids));
  append_moved(target.log_probs, std::move(more.log_probs));
  append_moved(target.top_log_probs, std::move(more.top_log_probs));
}

}  // namespace

bool EventStream::push(Event&& event, EventBatch* batch) {
  {
    const MutexLock lock(mutex_);
    if (abandoned_ || finished_) return true;
    const bool full = events_.size() >= static_cast<size_t>(options_.max_unread);
    if (full && options_.policy == SlowReaderPolicy::end) return false;
    if (full && options_.policy == SlowReaderPolicy::coalesce && can_join(events_.back(), event)) {
      coalesce(std::move(event));
    } else {
      events_.push_back(std::move(event));
    }
    if (options_.policy == SlowReaderPolicy::pause) {
      is_throttled_ = events_.size() >= static_cast<size_t>(options_.max_unread);
    }
    condition_.notify_all();
  }
  announce(batch);
  return true;
}

void EventStream::coalesce(Event&& event) {
  if (event.kind == EventKind::text) {
    join_text(events_.back(), std::move(event));
  } else if (event.kind == EventKind::log) {
    events_.back().lost_lines += 1 + event.lost_lines;
  } else {
    events_.back() = std::move(event);
  }
}

void EventStream::finish(Event&& terminal, EventBatch* batch) noexcept {
  {
    const MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    if (!abandoned_) terminal_.emplace(std::move(terminal));
    condition_.notify_all();
  }
  announce(batch);
}

// Moves the next event to the end of `out`, which has room for it. There must be one.
void EventStream::take(std::vector<Event>& out) {
  if (!events_.empty()) {
    out.push_back(std::move(events_.front()));
    events_.pop_front();
    return;
  }
  out.push_back(std::move(*terminal_));
  terminal_.reset();
  drained_ = true;
  condition_.notify_all();  // other readers return: no more events will come
}

// Reserves space for one more event in `out` before it is taken, so that no taken event is lost. Returns
// false if memory is short but some events were already taken.
bool make_room(std::vector<Event>& out, size_t num_taken, size_t max_events) {
  if (out.size() < out.capacity()) return true;
  try {
    out.reserve(out.size() - num_taken + std::min(max_events, std::max<size_t>(8, 2 * num_taken)));
  } catch (const std::bad_alloc&) {
    if (num_taken == 0) throw;
    return false;
  }
  return true;
}

// Returns without the lock and without a result: the caller checks the state itself.
template <typename Ready>
void EventStream::wait_until_ready(const Wait& wait, const Ready& ready) const {
  if (wait.timeout <= Duration{0}) return;
  const CancelSwitch::Listener listener(wait.cancel, mutex_, condition_);
  MutexLock lock(mutex_);
  options_.clock->wait_until(condition_, lock.native(), deadline_after(options_.clock->now(), wait.timeout),
                             [&] { return ready() || wait.cancelled(); });
}

bool EventStream::caught_up() {
  if (!is_throttled_ || events_.size() >= static_cast<size_t>(options_.max_unread)) return false;
  is_throttled_ = false;
  return true;
}

WaitEnd EventStream::drain(const Wait& wait, size_t max_events, std::vector<Event>& out) {
  const auto ready = [this]()
                         QUIRE_NO_THREAD_ANALYSIS { return !events_.empty() || finished_ || abandoned_; };
  wait_until_ready(wait, ready);
  size_t num_taken = 0;
  bool is_behind = false;
  WaitEnd end = WaitEnd::timeout;
  {
    const MutexLock lock(mutex_);
    while (num_taken < max_events && (!events_.empty() || terminal_) &&
           make_room(out, num_taken, max_events)) {
      take(out);
      ++num_taken;
    }
    is_behind = caught_up();
    if (num_taken > 0) {
      end = WaitEnd::ready;
    } else if (drained_ || abandoned_) {
      end = WaitEnd::end;
    } else if (wait.cancelled()) {
      end = WaitEnd::cancelled;
    }
  }
  if (is_behind && options_.engine) options_.engine->notify();
  return end;
}

std::optional<Event> EventStream::poll(Duration timeout) {
  std::vector<Event> one;
  if (drain(timeout, 1, one) != WaitEnd::ready) return std::nullopt;
  return std::move(one.front());
}

bool EventStream::has_events() const {
  const MutexLock lock(mutex_);
  return !events_.empty() || terminal_.has_value();
}

bool EventStream::drained() const {
  const MutexLock lock(mutex_);
  return drained_;
}

WaitEnd EventStream::wait_for_end(const Wait& wait) const {
  wait_until_ready(wait, [this]() QUIRE_NO_THREAD_ANALYSIS { return finished_; });
  const MutexLock lock(mutex_);
  if (finished_) return WaitEnd::ready;
  return wait.cancelled() ? WaitEnd::cancelled : WaitEnd::timeout;
}

void EventStream::abandon() noexcept {
  const MutexLock lock(mutex_);
  abandoned_ = true;
  events_.clear();
  terminal_.reset();
  is_throttled_ = false;
  condition_.notify_all();
}

void EventStream::announce(EventBatch* batch) noexcept {
  if (batch != nullptr) {
    batch->add(*this);
  } else if (const auto queue = options_.queue.lock()) {
    queue->announce(*this);
  }
}

void EventBatch::add(EventStream& stream) noexcept {
  if (stream.in_batch_ || stream.options_.queue.expired()) return;
  std::shared_ptr<EventStream> pinned = stream.weak_from_this().lock();
  if (pinned == nullptr) return;
  try {
    streams_.push_back(std::move(pinned));
    stream.in_batch_ = true;
  } catch (...) {
    stream.announce(nullptr);
  }
}

// Works queue by queue, so that one lock and one signal announce all streams of a queue.
void EventBatch::flush() noexcept {
  for (size_t first = 0; first < streams_.size(); ++first) {
    if (!streams_[first]->in_batch_) continue;
    const std::shared_ptr<EventQueue> queue = streams_[first]->options_.queue.lock();
    if (queue == nullptr) {
      streams_[first]->in_batch_ = false;
      continue;
    }
    const auto of_queue = std::partition(
        streams_.begin() + static_cast<ptrdiff_t>(first), streams_.end(),
        [&](const auto& stream) { return stream->in_batch_ && stream->options_.queue.lock() == queue; });
    const size_t count = static_cast<size_t>(of_queue - streams_.begin()) - first;
    const auto together = gsl::span<const std::shared_ptr<EventStream>>(streams_).subspan(first, count);
    for (const auto& stream : together) stream->in_batch_ = false;
    queue->announce(together);
  }
  streams_.clear();
}

}  // namespace quire
