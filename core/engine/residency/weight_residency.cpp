#include "core/engine/residency/weight_residency.h"

#include <algorithm>
#include <utility>

#include <gsl/gsl>

#include "core/base/contain.h"
#include "core/base/deadline.h"
#include "core/engine/residency/runtime.h"

namespace quire {

std::shared_ptr<WeightResidency> WeightResidency::create(std::shared_ptr<Runtime> runtime,
                                                         std::unique_ptr<EvictableWeights> weights,
                                                         ResidencyState state) {
  std::shared_ptr<WeightResidency> residency(
      new WeightResidency(std::move(runtime), std::move(weights), state));
  residency->runtime_->residency_registry().note_freed_memory();  // it has no users yet
  return residency;
}

WeightResidency::WeightResidency(std::shared_ptr<Runtime> runtime, std::unique_ptr<EvictableWeights> weights,
                                 ResidencyState state)
    : runtime_(std::move(runtime)),
      weights_(std::move(weights)),
      state_(state),
      move_{.before = state},
      use_{.last_used = runtime_->clock().now()} {
  runtime_->residency_registry().add(*this);
}

WeightResidency::~WeightResidency() {
  runtime_->residency_registry().remove(*this);
}

// Weights that were loaded for a job stay until the job has been computed. Otherwise two models that need the
// same memory could evict each other forever.
bool WeightResidency::is_idle() const noexcept {
  return state_ == ResidencyState::resident && use_.num_users == 0 && use_.num_waiting == 0;
}

bool WeightResidency::is_away() const noexcept {
  return state_ == ResidencyState::standing_by || state_ == ResidencyState::on_disk;
}

void WeightResidency::tell() noexcept {
  ++num_changes_;
  condition_.notify_all();
  for (const auto& listener : listeners_) listener->notify();
}

uint64_t WeightResidency::num_changes() const {
  const MutexLock lock(mutex_);
  return num_changes_;
}

ResidencyState WeightResidency::state() const {
  const MutexLock lock(mutex_);
  return state_;
}

ResidencyStats WeightResidency::figures() const {
  const MutexLock lock(mutex_);
  ResidencyStats figures = figures_;
  figures.state = state_;
  return figures;
}

void WeightResidency::set_priority(int32_t priority) {
  const MutexLock lock(mutex_);
  use_.priority = priority;
}

void WeightResidency::set_idle_timeout(Duration timeout) {
  const MutexLock lock(mutex_);
  use_.idle_timeout = timeout;
  tell();
}

void WeightResidency::retire() noexcept {
  stop_ = true;
}

void WeightResidency::add_listener(std::shared_ptr<EngineSignal> signal) {
  const MutexLock lock(mutex_);
  listeners_.push_back(std::move(signal));
}

void WeightResidency::remove_listener(const EngineSignal* signal) noexcept {
  const MutexLock lock(mutex_);
  std::erase_if(listeners_, [signal](const auto& listener) { return listener.get() == signal; });
}

// Checks whether the weights are resident, and if so adds num_users users. Otherwise a load is in progress,
// or the caller must start one outside of the lock.
WeightResidency::Attempt WeightResidency::ask(uint64_t& asked, int32_t num_users) {
  const MutexLock lock(mutex_);
  const int32_t num_waiting = asked == 0 ? 0 : num_users;
  if (state_ == ResidencyState::resident) {
    use_.num_users += num_users;
    use_.num_waiting -= num_waiting;
    use_.last_used = runtime_->clock().now();
    asked = 0;
    return Attempt::not_needed;
  }
  if (asked != 0 && wakes_.failed >= asked) {
    use_.num_waiting -= num_waiting;
    asked = 0;
    throw Error(wakes_.failure, wakes_.failure_message);
  }
  if (asked == 0 && num_users > 0) {
    use_.num_waiting += num_users;
    ++figures_.waits;
  }
  if (state_ == ResidencyState::moving) {
    asked = move_.is_waking ? wakes_.last : wakes_.last + 1;  // after an eviction: the load that will follow
    return Attempt::under_way;
  }
  if (wakes_.waits_for_memory &&
      wakes_.memory_changes_seen == runtime_->residency_registry().num_memory_changes()) {
    asked = std::max(asked, wakes_.last);
    return Attempt::under_way;
  }
  move_.before = std::exchange(state_, ResidencyState::moving);
  move_.is_waking = true;
  wakes_.waits_for_memory = false;
  asked = ++wakes_.last;
  return Attempt::started;
}

// Starts the thread that loads the weights. It owns what it uses and ends by itself.
void WeightResidency::start() {
  contain(
      "no memory for a thread that wakes the model",
      [this] {
        runtime_->threads().start("quire-wake", [self = shared_from_this()] { self->run_wake(); })->detach();
      },
      [this](ErrorCode code, std::string_view message) { end_wake(code, message); });
}

void WeightResidency::run_wake() noexcept {
  const TimePoint began = runtime_->clock().now();
  const uint64_t room = runtime_->residency_registry().num_memory_changes();
  ErrorCode code = ErrorCode::ok;
  std::string message;
  bool is_out_of_memory = false;
  contain(
      "no memory to wake the model",
      [&] {
        try {
          weights_->bring(stop_);
        } catch (const RetryableOutOfMemory&) {
          is_out_of_memory = true;
        }
      },
      [&](ErrorCode why, std::string_view what) {
        code = why;
        set_message(message, what);
      });
  if (code == ErrorCode::ok && !is_out_of_memory)
    runtime_->log()(LogLevel::info, "the weights of {} are resident again", name());
  if (!is_out_of_memory) {
    {
      const MutexLock lock(mutex_);
      figures_.last_wake = runtime_->clock().now() - began;
    }
    return end_wake(code, message);
  }
  const MutexLock lock(mutex_);
  state_ = move_.before;
  wakes_.waits_for_memory = true;
  wakes_.memory_changes_seen = room;
  if (room != runtime_->residency_registry().num_memory_changes()) tell();  // memory may have become free
}

void WeightResidency::end_wake(ErrorCode code, std::string_view message) noexcept {
  const auto told = gsl::finally(
      [this] { runtime_->residency_registry().note_freed_memory(); });  // the model may be idle now
  const MutexLock lock(mutex_);
  use_.last_used = runtime_->clock().now();
  if (code == ErrorCode::ok) {
    state_ = ResidencyState::resident;
    ++figures_.wakes;
    figures_.all_wakes += figures_.last_wake;
  } else {
    state_ = move_.before;
    ++figures_.failed_wakes;
    wakes_.failed = wakes_.last;
    wakes_.failure = code;
    set_message(wakes_.failure_message, message);
  }
  tell();
}

bool WeightResidency::enter(uint64_t& asked) {
  const Attempt attempt = ask(asked, 1);
  if (attempt == Attempt::started) start();
  return attempt == Attempt::not_needed;
}

bool WeightResidency::stay() noexcept {
  const MutexLock lock(mutex_);
  if (state_ != ResidencyState::resident) return false;
  ++use_.num_users;
  return true;
}

void WeightResidency::leave() noexcept {
  {
    const MutexLock lock(mutex_);
    --use_.num_users;
    use_.last_used = runtime_->clock().now();
    if (use_.num_users > 0) return;
    condition_.notify_all();  // wakes callers of `evict`; no cache waits for this
  }
  runtime_->residency_registry().note_freed_memory();
}

void WeightResidency::withdraw(uint64_t& asked) noexcept {
  if (std::exchange(asked, 0) == 0) return;
  {
    const MutexLock lock(mutex_);
    --use_.num_waiting;
    if (!is_idle()) return;
  }
  runtime_->residency_registry().note_freed_memory();
}

WaitEnd WeightResidency::wake(const Wait& wait) {
  const CancelSwitch::Listener listener(wait.cancel, mutex_, condition_);
  const Clock& clock = runtime_->clock();
  const TimePoint deadline = deadline_after(clock.now(), wait.timeout);
  uint64_t asked = 0;
  for (;;) {
    const uint64_t seen = num_changes();
    const Attempt attempt = ask(asked, 0);
    if (attempt == Attempt::not_needed) return WaitEnd::ready;
    if (attempt == Attempt::started) start();
    MutexLock lock(mutex_);
    const auto over = [&]() QUIRE_NO_THREAD_ANALYSIS { return num_changes_ != seen || wait.cancelled(); };
    if (!clock.wait_until(condition_, lock.native(), deadline, over)) return WaitEnd::timeout;
    if (num_changes_ == seen) return WaitEnd::cancelled;
  }
}

WaitEnd WeightResidency::evict(ResidencyState to, const Wait& wait) {
  const CancelSwitch::Listener listener(wait.cancel, mutex_, condition_);
  const Clock& clock = runtime_->clock();
  ResidencyState from{};
  {
    MutexLock lock(mutex_);
    const auto is_evictable = [&]() QUIRE_NO_THREAD_ANALYSIS {
      return state_ != ResidencyState::moving && use_.num_users == 0;
    };
    clock.wait_until(condition_, lock.native(), deadline_after(clock.now(), wait.timeout),
                     [&] { return is_evictable() || wait.cancelled(); });
    if (!is_evictable()) return wait.cancelled() ? WaitEnd::cancelled : WaitEnd::timeout;
    if (state_ == to || state_ == ResidencyState::on_disk) return WaitEnd::ready;
    from = begin_eviction();
  }
  take_away(from, to);
  return WaitEnd::ready;
}

ResidencyState WeightResidency::begin_eviction() {
  move_.before = std::exchange(state_, ResidencyState::moving);
  move_.is_waking = false;
  return move_.before;
}

bool WeightResidency::offload_from(ResidencyState from) noexcept {
  return contain(
      "no memory to evict the model", [&] { take_away(from, ResidencyState::standing_by); },
      [](ErrorCode, std::string_view) {});
}

void WeightResidency::take_away(ResidencyState from, ResidencyState to) {
  const auto settle = [&](ResidencyState state) {
    const MutexLock lock(mutex_);
    state_ = state;
    use_.last_used = runtime_->clock().now();  // delays the next attempt if the eviction failed
    if (state == to && from == ResidencyState::resident) ++figures_.evictions;
    tell();
  };
  try {
    weights_->take_away(to);
  } catch (...) {
    settle(from);
    throw;
  }
  settle(to);
}

TimePoint WeightResidency::idle_deadline() const {
  const MutexLock lock(mutex_);
  return is_idle() && use_.idle_timeout > Duration{0} ? deadline_after(use_.last_used, use_.idle_timeout)
                                                      : TimePoint::max();
}

void WeightResidency::evict_if_timed_out(TimePoint now) noexcept {
  if (idle_deadline() <= now && evict_if_idle())
    runtime_->log()(LogLevel::info, "the weights of {} are evicted: they were idle", name());
}

std::optional<ResidencyCandidate> WeightResidency::place_on(std::string_view device) const {
  const MutexLock lock(mutex_);
  if (state_ != ResidencyState::resident) return std::nullopt;
  return ResidencyCandidate{{weights_->bytes_on(device), use_.priority, use_.last_used}, is_idle()};
}

bool WeightResidency::evict_if_idle() noexcept {
  {
    const MutexLock lock(mutex_);
    if (!is_idle()) return false;
    begin_eviction();
  }
  return offload_from(ResidencyState::resident);
}

bool WeightResidency::evict_remainder(std::string_view device) noexcept {
  {
    const MutexLock lock(mutex_);
    if (state_ != ResidencyState::standing_by || weights_->remaining_bytes_on(device) == 0) return false;
    begin_eviction();
  }
  return offload_from(ResidencyState::standing_by);
}

void WeightResidency::note_freed_memory() noexcept {
  const MutexLock lock(mutex_);
  if (wakes_.waits_for_memory) tell();
}

}  // namespace quire
