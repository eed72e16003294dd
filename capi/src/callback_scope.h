// Tracks whether the current thread is inside a callback of the host.
#pragma once

#include <string_view>

namespace quire::capi {

// Marks the current thread during a callback of the host.
class CallbackScope {
 public:
  CallbackScope() noexcept;
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;
  ~CallbackScope();
};

// Throws ErrorCode::reentrant inside a callback. Called by functions that wait, or join a thread that may be
// waiting for the callback to return.
void refuse_in_callback(std::string_view what);

}  // namespace quire::capi
