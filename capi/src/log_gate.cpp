#include "capi/src/log_gate.h"

#include "capi/src/callback_scope.h"

namespace quire::capi {
namespace {

static_assert(QUIRE_LOG_ERROR == static_cast<int32_t>(LogLevel::error));
static_assert(QUIRE_LOG_WARNING == static_cast<int32_t>(LogLevel::warning));
static_assert(QUIRE_LOG_INFO == static_cast<int32_t>(LogLevel::info));
static_assert(QUIRE_LOG_DEBUG == static_cast<int32_t>(LogLevel::debug));

}  // namespace

void LogGate::write(LogLevel level, std::string_view line) {
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

void LogGate::close() noexcept {
  uint32_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (state != kClosed) {
    state_.wait(state, std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);
  }
}

Log make_log(int32_t level, quire_log_fn sink, std::shared_ptr<LogGate> gate) {
  if (sink == nullptr || level == QUIRE_LOG_OFF) return {};
  return {static_cast<LogLevel>(level),
          [gate = std::move(gate)](LogLevel of_line, std::string_view line) { gate->write(of_line, line); }};
}

}  // namespace quire::capi
