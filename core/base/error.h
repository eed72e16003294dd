// The one way a failure travels inside the library: an exception with a code and one line of text. The C
// boundary turns it into a quire_error; nothing else catches it except to contain it to one job.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace quire {

// Values equal the QUIRE_ERROR_* constants of capi/include/quire/error.h (checked there).
enum class ErrorCode : int32_t {
  ok = 0,
  invalid_argument = 1,  // a parameter; the message names it and its range
  bad_handle = 2,        // freed, foreign, or of another type
  out_of_memory = 3,     // host or device; the message has bytes needed and free
  not_found = 4,         // a file or an id that does not exist
  io = 5,                // the operating system refused a read or a write
  format = 6,            // a file is malformed
  truncated = 7,         // a file is shorter than its header says
  unsupported = 8,       // well-formed, but not something this build can do
  capacity = 9,          // there is no room now; later there may be
  cancelled = 10,
  timeout = 11,
  closed = 12,              // the object was closed while the call waited
  encoding = 13,            // text that is not UTF-8; the message has the byte offset
  numeric = 14,             // NaN or infinity where a number was needed
  device_lost = 15,         // the device failed; its jobs are over
  deadline = 16,            // a job's own deadline passed, or would now; later it may do
  forked = 17,              // called in a child of fork()
  version = 18,             // the caller was built against an incompatible header
  internal = 19,            // a defect of the library
  reentrant = 20,           // called from a callback that does not allow it
  quota = 21,               // a namespace's share is used up now; later it may do
  too_large = 22,           // it can never fit: into the cache, or into the quota of its namespace
  slow_reader = 23,         // nobody took the events of the job
  deadline_too_short = 24,  // a deadline that could not be met if the job were alone
};

// Whether the same call may succeed later, with nothing changed by the caller.
bool is_retryable(ErrorCode code);

// The name a script can match, such as "invalid_argument".
std::string_view error_code_name(ErrorCode code);

// One line, naming the thing at fault and the way out; never prompt text, never an address.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  template <typename... Args>
  Error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

  // After how many nanoseconds another try is worth it; -1 where nobody can tell.
  int64_t retry_after_ns() const noexcept { return retry_after_ns_; }
  Error&& retry_after(int64_t nanoseconds) && {
    retry_after_ns_ = nanoseconds;
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  int64_t retry_after_ns_ = -1;
};

// Words to go with a code, for paths that must not fail: where no memory is left for them, the code has to
// say enough.
void set_message(std::string& target, std::string_view message) noexcept;

// Text from a file or a request, made fit for one line of a message: control characters and invalid UTF-8
// escaped, cut at max_bytes.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace quire
