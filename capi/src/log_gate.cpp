#include "capi/src/log_gate.h"

#include <algorithm>
#include <utility>

#include "capi/src/callback_scope.h"

namespace quire::capi {
namespace {

static_assert(QUIRE_LOG_ERROR == static_cast<int32_t>(LogLevel::error));
static_assert(QUIRE_LOG_WARNING == static_cast<int32_t>(LogLevel::warning));
static_assert(QUIRE_LOG_INFO == static_cast<int32_t>(LogLevel::info));
static_assert(QUIRE_LOG_DEBUG == static_cast<int32_t>(LogLevel::debug));

// Maximum number of unread lines.
constexpr int32_t kMaxLines = 1024;

std::shared_ptr<EventStream> make_stream(const std::shared_ptr<EventQueue>& queue) {
  EventStreamOptions options;
  options.max_unread = kMaxLines;
  options.queue = queue;
  return std::make_shared<EventStream>(options);
}

}  // namespace

LogFollower::LogFollower(const std::shared_ptr<EventQueue>& queue) : stream_(make_stream(queue)) {}

void LogFollower::write(LogLevel level, std::string_view line) {
  if (static_cast<int32_t>(level) > level_) return;
  Event event;
  event.kind = EventKind::log;
  event.log_level = level;
  event.text = line;
  stream_->push(std::move(event));
}

LogGate::LogGate(int32_t level, quire_log_fn sink, void* user_data)
    : sink_level_(sink == nullptr ? QUIRE_LOG_OFF : level),
      sink_(sink),
      user_data_(user_data),
      level_(std::make_shared<std::atomic<int32_t>>(sink_level_)) {}

void LogGate::write(LogLevel level, std::string_view line) {
  std::vector<std::weak_ptr<LogFollower>> followers;
  {
    const MutexLock lock(mutex_);
    followers = followers_;
  }
  for (const auto& entry : followers) {
    if (const auto follower = entry.lock()) follower->write(level, line);
  }
  if (static_cast<int32_t>(level) <= sink_level_) call_sink(level, line);
}

void LogGate::call_sink(LogLevel level, std::string_view line) {
  struct Leave {
    std::atomic<uint32_t>& state;
    ~Leave() {
      state.fetch_sub(1, std::memory_order_release);
      state.notify_all();
    }
  };
  const bool closed = (state_.fetch_add(1, std::memory_order_acquire) & kClosed) != 0;
  const Leave leave{state_};
  if (closed) return;
  const CallbackScope scope;
  sink_(user_data_, static_cast<int32_t>(level), line.data(), line.size());
}

void LogGate::follow(const std::shared_ptr<LogFollower>& follower) {
  const MutexLock lock(mutex_);
  std::erase_if(followers_, [&](const auto& entry) {
    const auto known = entry.lock();
    return known == nullptr || known == follower || known->level() == QUIRE_LOG_OFF;
  });
  if (follower->level() != QUIRE_LOG_OFF) followers_.push_back(follower);
  int32_t most = sink_level_;
  for (const auto& entry : followers_) {
    if (const auto known = entry.lock()) most = std::max(most, known->level());
  }
  *level_ = most;
}

void LogGate::close() noexcept {
  uint32_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (state != kClosed) {
    state_.wait(state, std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);
  }
}

Log make_log(const std::shared_ptr<LogGate>& gate) {
  return {gate->level(), [gate](LogLevel level, std::string_view line) { gate->write(level, line); }};
}

}  // namespace quire::capi
