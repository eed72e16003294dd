#include "capi/src/guard.h"

#include <atomic>
#include <exception>
#include <new>

#include <gsl/gsl>

#include "capi/src/error_object.h"
#include "capi/src/fork_guard.h"
#include "core/base/error.h"

namespace quire::capi {
namespace {

constinit std::atomic<EntryHook> entry_hook{nullptr};

}  // namespace

void set_entry_hook(EntryHook hook) noexcept {
  entry_hook.store(hook, std::memory_order_release);
}

bool in_forked_child() noexcept {
  return fork_guard_tripped();
}

void enter() {
  if (in_forked_child()) {
    throw Error(ErrorCode::forked,
                "called in a child of fork(); use the library in the parent, or exec first");
  }
  if (const EntryHook hook = entry_hook.load(std::memory_order_acquire)) hook();
}

void report_exception(quire_error** error) noexcept {
  try {
    throw;
  } catch (const Error& failure) {
    set_error(error, failure.code(), failure.what(), failure.parameter(), failure.retry_after_ns());
  } catch (const std::bad_alloc&) {
    set_error(error, ErrorCode::out_of_memory, "out of host memory");
  } catch (const std::length_error&) {
    set_error(error, ErrorCode::out_of_memory, "out of host memory: a requested size is too large");
  } catch (const std::exception& failure) {
    set_error(error, ErrorCode::internal, failure.what());
  } catch (...) {
    set_error(error, ErrorCode::internal, "an exception of unknown type");
  }
}

void refuse_handle(uint64_t token, HandleType expected, std::string_view name) {
  const char* const wanted = handle_type_name(expected);
  if (token == 0)
    throw Error(ErrorCode::invalid_argument, "{}: NULL, but a {} is required", name, wanted).at(name);
  const HandleType actual = HandleTable::instance().type_of(token);
  if (actual != HandleType::none && actual != expected) {
    throw Error(ErrorCode::bad_handle, "{}: a {}, but a {} is required", name, handle_type_name(actual),
                wanted)
        .at(name);
  }
  throw Error(ErrorCode::bad_handle, "{}: not a live {}: it was freed, or never was one", name, wanted)
      .at(name);
}

}  // namespace quire::capi
