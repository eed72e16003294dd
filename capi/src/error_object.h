// Object of a quire_error.
#pragma once

#include <string>
#include <string_view>

#include "capi/src/handle.h"
#include "core/base/error.h"

namespace quire::capi {

struct ErrorObject final : Object {
  ErrorObject(ErrorCode the_code, std::string the_message, std::string the_parameter,
              int64_t the_retry_after_ns)
      : code(the_code),
        message(std::move(the_message)),
        parameter(std::move(the_parameter)),
        retry_after_ns(the_retry_after_ns) {}
  const ErrorCode code;
  const std::string message;
  const std::string parameter;   // parameter at fault; empty if the error is not about one
  const int64_t retry_after_ns;  // -1 if unknown
};

template <>
struct HandleTraits<quire_error> {
  using Object = ErrorObject;
  static constexpr HandleType type = HandleType::error;
};

// Sets *error to a new error; does nothing if `error` is NULL. If memory is short, sets it to a static
// ErrorCode::out_of_memory, which may be freed like any other error, any number of times.
void set_error(quire_error** error, ErrorCode code, std::string_view message, std::string_view parameter = {},
               int64_t retry_after_ns = -1) noexcept;

}  // namespace quire::capi
