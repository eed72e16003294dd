// Exception boundary of the library: every function of the C interface runs inside guard().
#pragma once

#include <pthread.h>
#include <string_view>
#include <utility>

#include <quire/base.h>

#include "capi/src/handle.h"

namespace quire::capi {

// Defers pthread_cancel during a call: unwinding a cancelled thread through noexcept frames would end the
// process.
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

// Set by tests to a function that throws, to check that no exception leaves an entry function. Otherwise
// NULL.
using EntryHook = void (*)();
void set_entry_hook(EntryHook hook) noexcept;

// Called before each body. Throws ErrorCode::forked in a child of fork(), and the exceptions of a test's
// hook.
void enter();

// Converts the current exception to an error object. Called inside a catch block.
void report_exception(quire_error** error) noexcept;

// Runs the body of an entry function. Sets *error to NULL on success. On failure sets it to an error object
// and returns `failure`.
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

// Implements a free function: closes the handle. `before` runs while the handle is still alive and may throw
// to refuse.
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
