// Knows whether the current thread is inside a callback of the host.
#pragma once

#include <string_view>

namespace quire::capi {

// Lives while a callback of the host runs on this thread.
class CallbackScope {
 public:
  CallbackScope() noexcept;
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  ~CallbackScope();
};

// Throws ErrorCode::reentrant inside a callback. For what waits, or joins a thread that may be waiting for
// the callback to return.
void refuse_in_callback(std::string_view what);

}  // namespace quire::capi
