// What a call came to. Words travel with the call that failed, so that no other call can exchange them.
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
    out_of_memory = 2,     // nothing was taken
    invalid_argument = 3,  // a shape or option outside what the operation documents: a defect of the caller
    device_lost = 4,       // sticky: every later call on the device fails the same way
    interrupted = 5,       // of a gather: another shard cannot go on
    unreadable = 6,        // UnreadBytes could not be read; nothing was taken
  };
  static constexpr size_t kMaxWords = 252;  // with the terminator; longer ones are cut

  Status(Code of_call) : code(of_call) { words[0] = '\0'; }  // implicit: a code is a status without words
  friend bool operator==(const Status& status, Code wanted) { return status.code == wanted; }

  Code code;
  char words[kMaxWords];  // one line that names the thing at fault; empty where the code says it all
};

// A failure with its words, as printf makes them.
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
