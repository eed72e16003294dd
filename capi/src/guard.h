// The only try and catch of the library's edge: every entry of the C interface runs inside guard().
#pragma once

#include <pthread.h>
#include <string_view>
#include <utility>

#include <quire/base.h>

#include "capi/src/handle.h"

namespace quire::capi {

// Puts off pthread_cancel while a call runs: unwinding a cancelled thread through noexcept frames would end
// the process.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &previous_); }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;
  ~CancellationOff() {
    int ignored = 0;
    pthread_setcancelstate(previous_, &ignored);
  }

 private:
  int previous_ = PTHREAD_CANCEL_ENABLE;
};

// Tests put a function here that throws, to see that nothing an entry may throw leaves it. NULL otherwise.
using EntryHook = void (*)();
void set_entry_hook(EntryHook hook) noexcept;

// Before each body: throws ErrorCode::forked in a child of fork(), and what the hook of a test throws.
void enter();

// Inside a catch block: turns the exception in flight into an error object.
void report_exception(quire_error** error) noexcept;

// Runs the body of an entry. *error is NULL on success and an object on failure, and then `failure` is
// returned.
template <typename Result, typename Body>
Result guard(quire_error** error, Result failure, Body&& body) noexcept {
  const CancellationOff cancellation_off;
  if (error != nullptr) *error = nullptr;
  try {
    enter();
    return std::forward<Body>(body)();
  } catch (...) {
    report_exception(error);
    return failure;
  }
}

// True in a child of fork() that inherited live handles.
bool in_forked_child() noexcept;

// The whole of a free function: ends the handle. `before` runs while it is still alive and may refuse.
template <typename Handle, typename Before>
int32_t free_handle(Handle* handle, quire_error** error, Before&& before) noexcept {
  if (handle == nullptr || in_forked_child()) {
    if (error != nullptr) *error = nullptr;
    return 1;
  }
  return guard(error, 0, [&] {
    Pinned<Handle> pinned(handle, "handle");
    before(*pinned);
    pinned.close("handle");
    return 1;
  });
}

template <typename Handle>
int32_t free_handle(Handle* handle, quire_error** error) noexcept {
  return free_handle(handle, error, [](ObjectOf<Handle>&) {});
}

}  // namespace quire::capi
