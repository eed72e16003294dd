#include "core/base/error.h"

#include "core/base/message_text.h"
#include "core/base/utf8.h"

namespace quire {

bool is_retryable(ErrorCode code) {
  switch (code) {
    case ErrorCode::capacity:
    case ErrorCode::quota:
    case ErrorCode::deadline:
    case ErrorCode::timeout:
    case ErrorCode::slow_reader:
      return true;
    default:
      return false;
  }
}

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::ok:
      return "ok";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::bad_handle:
      return "bad_handle";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::format:
      return "format";
    case ErrorCode::truncated:
      return "truncated";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::capacity:
      return "capacity";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::closed:
      return "closed";
    case ErrorCode::encoding:
      return "encoding";
    case ErrorCode::numeric:
      return "numeric";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::deadline:
      return "deadline";
    case ErrorCode::forked:
      return "forked";
    case ErrorCode::version:
      return "version";
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::reentrant:
      return "reentrant";
    case ErrorCode::quota:
      return "quota";
    case ErrorCode::too_large:
      return "too_large";
    case ErrorCode::slow_reader:
      return "slow_reader";
    case ErrorCode::deadline_too_short:
      return "deadline_too_short";
  }
  return "unknown";
}

Error&& Error::at(std::string_view parameter) && noexcept {
  parameter_ = share_text(parameter);
  return std::move(*this);
}

void set_message(std::string& target, std::string_view message) noexcept {
  try {
    target = escape_unprintable(message);
  } catch (...) {
    target = kNoMemoryForMessage;
  }
}

std::string printable(std::string_view text, size_t max_bytes) {
  size_t end = 0;
  while (end < text.size() && end < max_bytes) end += decode_utf8(text, end).length;
  const std::string out = escape_unprintable(text.substr(0, end));
  return end < text.size() ? out + "..." : out;
}

}  // namespace quire
