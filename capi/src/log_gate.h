// The host's log sink behind a gate: once it is closed the sink is not called any more, whoever still lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include <quire/options.h>

#include "core/base/log.h"

namespace quire::capi {

// Any thread may write and close.
class LogGate {
 public:
  LogGate(quire_log_fn sink, void* user_data) : sink_(sink), user_data_(user_data) {}

  // Calls the sink, without any lock held. What it throws passes through.
  void write(LogLevel level, std::string_view line);
  // Returns once no call of the sink is in progress and none will come. Must not be called by the sink.
  void close() noexcept;

 private:
  // Calls of the sink in progress, with kClosed added once closed.
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  std::atomic<uint32_t> state_{0};
  quire_log_fn sink_;
  void* user_data_;
};

// A log that writes through the gate; QUIRE_LOG_OFF and a missing sink give one that writes nothing.
Log make_log(int32_t level, quire_log_fn sink, std::shared_ptr<LogGate> gate);

}  // namespace quire::capi
