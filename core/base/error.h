// The error type of the library: an exception with a code and one line of text. The C API turns it into a
// quire_error. Other code catches it only to confine a failure to one job.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace quire {

// Error codes. The values equal the QUIRE_ERROR_* constants of capi/include/quire/error.h; capi/src/error.cpp
// checks this.
enum class ErrorCode : int32_t {
  ok = 0,
  invalid_argument = 1,  // an argument; the message names it and its range
  bad_handle = 2,        // a handle that was freed, is foreign or has another type
  out_of_memory = 3,     // host or device; the message has bytes needed and free
  not_found = 4,         // a file or an id does not exist
  io = 5,                // the operating system refused a read or a write
  format = 6,            // a file is malformed
  truncated = 7,         // a file is shorter than its header declares
  unsupported = 8,       // well-formed, but not supported by this build
  capacity = 9,          // no space now; retry later
  cancelled = 10,
  timeout = 11,
  closed = 12,              // the object was closed while the call waited
  encoding = 13,            // text that is not UTF-8; the message has the byte offset
  numeric = 14,             // NaN or infinity where a number was needed
  device_lost = 15,         // the device failed; its jobs have ended
  deadline = 16,            // the deadline of a job passed, or cannot be met now; retry later
  forked = 17,              // called in a child of fork()
  version = 18,             // the caller was built against an incompatible header
  internal = 19,            // a defect of the library
  reentrant = 20,           // called from a callback that does not allow it
  quota = 21,               // the quota of a namespace is used up now; retry later
  too_large = 22,           // it can never fit: into the cache, or into the quota of its namespace
  slow_reader = 23,         // the host did not read the events of the job
  deadline_too_short = 24,  // the deadline could not be met even if the job ran alone
};

// Returns whether the same call may succeed later although the caller changes nothing.
bool is_retryable(ErrorCode code);

// Returns the name of a code for scripts to match, such as "invalid_argument".
std::string_view error_code_name(ErrorCode code);

// An error of the library. The message is one line that names the thing at fault and the way out; it never
// contains prompt text or an address.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  template <typename... Args>
  Error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) requires(sizeof...(Args) > 0)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), code_(code) {}

  ErrorCode code() const noexcept { return code_; }

  // Returns after how many nanoseconds a retry makes sense; -1 if unknown.
  int64_t retry_after_ns() const noexcept { return retry_after_ns_; }
  Error&& retry_after(int64_t nanoseconds) && {
    retry_after_ns_ = nanoseconds;
    return std::move(*this);
  }

  // Returns the name of the parameter at fault, as the C API calls it; empty if the error is not about one.
  std::string_view parameter() const noexcept {
    return parameter_ == nullptr ? std::string_view() : *parameter_;
  }
  // Sets the name of the parameter at fault. If there is no memory for it, the error stays without one.
  Error&& at(std::string_view parameter) && noexcept;

 private:
  ErrorCode code_;
  int64_t retry_after_ns_ = -1;
  std::shared_ptr<const std::string> parameter_;  // shared, so that copying an error cannot fail; may be null
};

// Runs `body` and returns its result. An Error that it throws without a parameter gets this one.
template <typename Body>
decltype(auto) with_parameter(std::string_view parameter, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    if (error.parameter().empty()) std::move(error).at(parameter);
    throw;
  }
}

// Does the same, and also replaces a parameter that the error has.
template <typename Body>
decltype(auto) replace_parameter(std::string_view parameter, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    std::move(error).at(parameter);
    throw;
  }
}

// Sets the message of an error on paths that must not fail. If there is no memory for the text, the message
// becomes kNoMemoryForMessage (message_text.h).
void set_message(std::string& target, std::string_view message) noexcept;

// Makes text from a file or a request fit for one line of a message: escapes control characters and invalid
// UTF-8, and cuts the text at max_bytes.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace quire
