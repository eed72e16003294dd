#include <quire/error.h>

#include "capi/src/error_object.h"
#include "core/base/message_text.h"

#define QUIRE_SAME_CODE(NAME, name) \
  static_assert(QUIRE_ERROR_##NAME == static_cast<int32_t>(quire::ErrorCode::name))
QUIRE_SAME_CODE(OK, ok);
QUIRE_SAME_CODE(INVALID_ARGUMENT, invalid_argument);
QUIRE_SAME_CODE(BAD_HANDLE, bad_handle);
QUIRE_SAME_CODE(OUT_OF_MEMORY, out_of_memory);
QUIRE_SAME_CODE(NOT_FOUND, not_found);
QUIRE_SAME_CODE(IO, io);
QUIRE_SAME_CODE(FORMAT, format);
QUIRE_SAME_CODE(TRUNCATED, truncated);
QUIRE_SAME_CODE(UNSUPPORTED, unsupported);
QUIRE_SAME_CODE(CAPACITY, capacity);
QUIRE_SAME_CODE(CANCELLED, cancelled);
QUIRE_SAME_CODE(TIMEOUT, timeout);
QUIRE_SAME_CODE(CLOSED, closed);
QUIRE_SAME_CODE(ENCODING, encoding);
QUIRE_SAME_CODE(NUMERIC, numeric);
QUIRE_SAME_CODE(DEVICE_LOST, device_lost);
QUIRE_SAME_CODE(DEADLINE, deadline);
QUIRE_SAME_CODE(FORKED, forked);
QUIRE_SAME_CODE(VERSION, version);
QUIRE_SAME_CODE(INTERNAL, internal);
QUIRE_SAME_CODE(REENTRANT, reentrant);
QUIRE_SAME_CODE(QUOTA, quota);
QUIRE_SAME_CODE(TOO_LARGE, too_large);
QUIRE_SAME_CODE(SLOW_READER, slow_reader);
QUIRE_SAME_CODE(DEADLINE_TOO_SHORT, deadline_too_short);
#undef QUIRE_SAME_CODE

namespace quire::capi {
namespace {

// Token of the right type with a slot beyond the table: never a live handle, recognised by its value.
constexpr uint64_t kOutOfMemoryToken = uint64_t{0x41} << 56 | 0xffffff;
constexpr std::string_view kOutOfMemoryMessage = "out of host memory";
constexpr std::string_view kBadHandleMessage =
    "error: not a live quire_error: it was freed, or never was one";

bool is_out_of_memory_error(quire_error* error) noexcept {
  return token_of(error) == kOutOfMemoryToken;
}

// Error functions must also work in a child of fork() and cannot fail, so they do not use guard().
class PinnedError {
 public:
  explicit PinnedError(quire_error* error) noexcept
      : token_(token_of(error)),
        object_(static_cast<ErrorObject*>(HandleTable::instance().pin(token_, HandleType::error))) {}
  PinnedError(const PinnedError&) = delete;
  PinnedError& operator=(const PinnedError&) = delete;
  ~PinnedError() {
    if (object_ != nullptr) HandleTable::instance().unpin(token_);
  }
  ErrorObject* get() const { return object_; }
  bool close() { return object_ != nullptr && HandleTable::instance().close(token_); }

 private:
  uint64_t token_;
  ErrorObject* object_;
};

std::string_view message_of(quire_error* error) noexcept {
  if (error == nullptr) return "";
  if (is_out_of_memory_error(error)) return kOutOfMemoryMessage;
  const PinnedError pinned(error);
  // The text outlives the pin: the caller keeps the error alive.
  return pinned.get() == nullptr ? kBadHandleMessage : std::string_view(pinned.get()->message);
}

std::string_view parameter_of(quire_error* error) noexcept {
  if (error == nullptr || is_out_of_memory_error(error)) return "";
  const PinnedError pinned(error);
  // Borrowed beyond the pin, as the message is.
  return pinned.get() == nullptr ? "" : std::string_view(pinned.get()->parameter);
}

}  // namespace

void set_error(quire_error** error, ErrorCode code, std::string_view message, std::string_view parameter,
               int64_t retry_after_ns) noexcept {
  if (error == nullptr) return;
  if (message.empty()) message = error_code_name(code);  // of an exception without a text
  try {
    *error =
        make_handle<quire_error>(code, escape_unprintable(message), std::string(parameter), retry_after_ns);
  } catch (...) {
    *error = reinterpret_cast<quire_error*>(kOutOfMemoryToken);
  }
}

}  // namespace quire::capi

using namespace quire::capi;

int32_t quire_error_code(quire_error* error) {
  if (error == nullptr) return QUIRE_ERROR_OK;
  if (is_out_of_memory_error(error)) return QUIRE_ERROR_OUT_OF_MEMORY;
  const PinnedError pinned(error);
  return pinned.get() == nullptr ? QUIRE_ERROR_BAD_HANDLE : static_cast<int32_t>(pinned.get()->code);
}

const char* quire_error_message(quire_error* error, size_t* out_len) {
  const std::string_view message = message_of(error);
  if (out_len != nullptr) *out_len = message.size();
  return message.data();
}

const char* quire_error_parameter(quire_error* error, size_t* out_len) {
  const std::string_view parameter = parameter_of(error);
  if (out_len != nullptr) *out_len = parameter.size();
  return parameter.data();
}

int32_t quire_error_is_retryable(quire_error* error) {
  if (error == nullptr || is_out_of_memory_error(error)) return 0;
  const PinnedError pinned(error);
  return pinned.get() != nullptr && quire::is_retryable(pinned.get()->code) ? 1 : 0;
}

int64_t quire_error_retry_after_ns(quire_error* error) {
  if (error == nullptr || is_out_of_memory_error(error)) return -1;
  const PinnedError pinned(error);
  return pinned.get() == nullptr ? -1 : pinned.get()->retry_after_ns;
}

int32_t quire_error_free(quire_error* handle) {
  if (handle == nullptr || is_out_of_memory_error(handle)) return 1;
  return PinnedError(handle).close() ? 1 : 0;
}

const char* quire_error_code_name(int32_t code) {
  return quire::error_code_name(static_cast<quire::ErrorCode>(code)).data();
}
