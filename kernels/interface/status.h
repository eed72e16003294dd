// Result of a call. The message is part of the result, so that no other call can overwrite it.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace quire::kernels {

struct [[nodiscard]] Status {
  enum Code : int32_t {
    ok = 0,
    unsupported = 1,       // this backend cannot do it; nothing was changed
    out_of_memory = 2,     // nothing was allocated
    invalid_argument = 3,  // a shape or option outside the documented range: an error in the caller
    device_lost = 4,       // sticky: every later call on the device fails the same way
    interrupted = 5,       // result of a gather if another shard cannot continue
    unreadable = 6,        // UnreadBytes could not be read; nothing was allocated
  };
  static constexpr size_t kMaxWords = 252;  // including the terminator; longer messages are truncated

  Status(Code of_call) : code(of_call) { words[0] = '\0'; }  // implicit: a code is a status without a message
  friend bool operator==(const Status& status, Code wanted) { return status.code == wanted; }

  Code code;
  char words[kMaxWords];  // one line that names the thing at fault; empty if the code suffices
};

// Returns a failure with a message formatted as by printf.
[[gnu::format(printf, 2, 3)]] inline Status failed(Status::Code code, const char* format, ...) {
  Status status = code;
  va_list arguments;
  va_start(arguments, format);
  static_cast<void>(std::vsnprintf(status.words, sizeof status.words, format, arguments));
  va_end(arguments);
  return status;
}

// Ends the calling function with the status of `expression`, unless it is ok.
#define QUIRE_RETURN_IF_FAILED(expression)                                                 \
  do {                                                                                     \
    const ::quire::kernels::Status status_of_expression = (expression);                    \
    if (status_of_expression != ::quire::kernels::Status::ok) return status_of_expression; \
  } while (false)

}  // namespace quire::kernels
